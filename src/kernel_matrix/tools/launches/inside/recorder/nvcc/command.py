"""One CUDA source with the arguments that nvcc gets for it, and the files that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kernel_matrix.job.ahead import nvcc


@dataclass(frozen=True)
class Command:
    """One CUDA source with the arguments that nvcc gets for it, without the arguments for an architecture.

    ``specific`` are the architectures that were asked for with the letter ``a``: their own instructions. ``headers`` is
    a folder with headers that a build would generate.
    """

    file: str
    directory: str
    arguments: Sequence[str]
    specific: frozenset[str]
    headers: Path | None = None

    @property
    def path(self) -> Path:
        """The source."""
        return Path(self.directory, self.file)

    @property
    def content(self) -> bytes:
        """The content of the source; empty if it is gone."""
        try:
            return self.path.read_bytes()
        except OSError:
            return b""

    @property
    def words(self) -> list[str]:
        """The arguments, with the folder of the generated headers."""
        return [*self.arguments, *([f"-I{self.headers}"] if self.headers else [])]

    @cached_property
    def read_files(self) -> tuple[Path, ...]:
        """The files that nvcc reads. It is asked once for all targets."""
        log = nvcc.asked([nvcc.compiler_of("cuda"), *self.words, "-M", self.file], self.directory)
        named = log.partition(" : ")[2].replace("\\\n", " ").split()
        return tuple(sorted(Path(self.directory, name) for name in named))
