"""Compile one CUDA source for one target: with nvcc, or with hipcc after PyTorch's hipify has rewritten it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kernel_matrix.job.ahead import nvcc
from kernel_matrix.job.ahead.figures import code_bytes, figures_of_clang
from kernel_matrix.job.ahead.nvcc import UnavailableError

from ..settings import Target

_FOR_HOST = ("-Xcompiler", "--compiler-options", "-Xptxas", "--ptxas-options", "-Xcudafe", "-Xfatbin", "-ccbin")
_KEPT_BY_CLANG = ("-D", "-I", "-O", "-std", "-isystem", "-include", "-U")


@dataclass(frozen=True)
class Source:
    """The input of nvcc, or of hipcc, for a CUDA source and one target."""

    command: Command
    target: Target

    @property
    def key(self) -> str:
        """Return the content of the source and of all that it includes; empty where that cannot be said."""
        try:
            compiler = nvcc.compiler_of(self.target.backend)
            files = self.command.read_files
        except (UnavailableError, nvcc.CompilerError):
            return ""  # the answer may be another one once the compiler or a header is there
        content = hashlib.sha256()
        for path in files:
            content.update(path.read_bytes())
        parts = (nvcc.identity_of(compiler), self.command.arguments, sorted(self.command.specific), self.target.name)
        return f"{parts} {content.hexdigest()}"

    def compile(self, report: Callable[[str], None]) -> dict[str, Any]:
        """Compile, and return the figures of each kernel where the compiler names them."""
        if not self.command.path.exists():
            raise nvcc.CompilerError(f"{self.command.file}: the file is gone, since the program has deleted it")
        if self.target.backend == "hip":
            return self._for_amd(report)
        compiler = nvcc.compiler_of("cuda")
        report("cubin")
        with TemporaryDirectory(prefix="source-") as folder:
            into = Path(folder, "code.cubin")
            letter = "a" if self.target.name.removeprefix("sm_") in self.command.specific else ""
            flags = ["-cubin", f"-arch={self.target.name}{letter}", "-Xptxas", "-v", "-o", str(into)]
            log = nvcc.run_compiler([compiler, *self.command.words, *flags, self.command.file], self.command.directory)
            code = into.read_bytes()
        kernels = nvcc.kernels_of(log, code)
        shared = max((one["shared"] for one in kernels.values()), default=0)
        names = dict(zip(kernels, nvcc.demangled(list(kernels)), strict=True))
        return {
            "figures": {"bytes": len(code), "code_bytes": code_bytes(code), "shared": shared},
            "kernels": {names[name]: figures for name, figures in kernels.items()},
        }

    def _for_amd(self, report: Callable[[str], None]) -> dict[str, Any]:
        """Compile what PyTorch's hipify makes of the source."""
        compiler = nvcc.compiler_of("hip")
        report("hip")
        with TemporaryDirectory(prefix="source-") as folder:
            path, into = hipified(self.command.path, Path(folder, "hip")), Path(folder, "code.hsaco")
            report("hsaco")
            resources = "-Rpass-analysis=kernel-resource-usage"
            flags = ["--genco", f"--offload-arch={self.target.name}", resources, f"-I{self.command.path.parent}"]
            kept = list(_for_clang(self.command.words))
            log = nvcc.run_compiler([compiler, *flags, *kept, "-o", str(into), str(path)], self.command.directory)
            code = into.read_bytes()
        figures = {"shared": 0.0, **figures_of_clang(log)}
        return {"figures": {**figures, "bytes": len(code), "code_bytes": code_bytes(code)}}


def hipified(path: Path, folder: Path) -> Path:
    """Rewrite a source and the headers next to it with HIP's names in place of CUDA's; return the new source.

    ``folder`` is made, and holds a copy of the source's folder.

    Raises:
        UnavailableError: there is no PyTorch, whose tool does this.
    """
    try:
        from torch.utils.hipify import hipify_python
    except ImportError as error:
        raise UnavailableError("torch.utils.hipify is not in this environment. `pip install torch` has it") from error
    results = hipify_python.hipify(
        project_directory=str(path.parent),
        output_directory=str(folder),
        includes=[f"{folder}/*"],
        extra_files=[str(folder / path.name)],
        is_pytorch_extension=True,
        hipify_extra_files_only=True,
    )
    return Path(results[str(folder / path.name)].hipified_path)


def _for_clang(words: list[str]) -> Iterator[str]:
    """Yield the arguments of nvcc that clang takes as well: names, folders, the language, the optimisation."""
    rest = iter(words)
    for word in rest:
        if word in _FOR_HOST:
            next(rest, None)
        elif word in ("-I", "-D", "-isystem", "-include", "-U"):
            yield from (word, next(rest, ""))
        elif word.startswith(_KEPT_BY_CLANG):
            yield word


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
