"""Read the recorded commands of nvcc: each CUDA source of one is compiled for every target."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .questions import assume
from .settings import Target

_SUFFIXES = (".cu",)
# What says for which architecture, into which file and in how many steps nvcc compiles. Some have a value after them.
_WITH_VALUE = (
    *("-gencode", "--generate-code", "-arch", "--gpu-architecture", "-code", "--gpu-code", "-o", "--output-file"),
    *("-MF", "-MT", "-MQ", "--dependency-output", "-t", "--threads", "--keep-dir", "-keep-dir"),
)
_ALONE = (
    *("-c", "--compile", "-M", "-MM", "-MD", "-MMD", "-MP", "--generate-dependencies-with-compile", "--keep", "-keep"),
    *("--generate-nonsystem-dependencies-with-compile", "-cubin", "--cubin", "-ptx", "--ptx", "-fatbin", "--fatbin"),
    *("-dryrun", "--dryrun", "-shared", "--shared"),
)
_RELOCATABLE = ("-dc", "--device-c")


@dataclass
class Line:
    """One CUDA source with the arguments that nvcc gets for it, without the arguments for an architecture.

    ``specific`` are the architectures that were asked for with the letter ``a``: their own instructions.
    """

    file: str
    directory: str
    arguments: Sequence[str]
    specific: frozenset[str]
    identity: str = ""
    headers: Path | None = None
    tuned: tuple[int, int] | None = None
    grid: str = ""
    times: int = 0
    emulated: str = ""

    @property
    def group(self) -> object:
        """Return the part that is the same for all commands of one source."""
        return self.path

    @property
    def path(self) -> Path:
        """The source."""
        return Path(self.directory, self.file)

    def source(self, target: Target) -> Any:
        """Return what the line gives to the compiler for a target."""
        from .lines_compiling import Source

        return Source(self, target)

    def entry(self) -> dict[str, Any]:
        """Return the line as the recording has it."""
        return {
            "toolchain": "nvcc",
            "module": Path(self.file).parent.name,
            "kernel": Path(self.file).name,
            "source": hashlib.sha256(_content(self.path)).hexdigest()[:16],
            "types": {},
            "special": {},
            "constants": {},
            "options": {
                "nvcc": shlex.join(self.arguments),
                **({"specific": ",".join(sorted(self.specific))} if self.specific else {}),
            },
        }


def recorded(log: Path, databases: Iterable[Path], headers: Path | None) -> dict[str, Line]:
    """Return the lines of a log of the stand-in compilers and of ``compile_commands.json`` files, by identity.

    A line is known by its source and by its place among the different ones for this source. The arguments are no part
    of this: a build may give others for AMD, and it is the same source all the same.
    """
    variants: dict[str, dict[tuple[str, ...], Line]] = {}
    host = 0
    for entry in [*_of_log(log), *(entry for path in databases for entry in _of_database(path))]:
        if entry["kind"] != "nvcc":
            host += any(word in ("-c", "--compile") for word in entry["arguments"])
            continue
        for line in _lines(entry, headers):
            of_source = variants.setdefault(_key_of(line), {})
            of_source.setdefault(tuple(line.arguments), line).times += 1
    if host:
        assume(f"{host} sources are C++ for the host: each became an empty object")
    lines = {}
    for key, of_source in variants.items():
        for place, line in enumerate(of_source.values()):
            line.identity = hashlib.sha256(f"{key} {place}".encode()).hexdigest()[:16]
            lines[line.identity] = line
    return lines


def _key_of(line: Line) -> str:
    """Return where a source is and what is in it. Each vendor's recording has a folder of its own for extensions."""
    place = os.path.relpath(line.path).rpartition("/extensions/")[2]
    return f"{place} {hashlib.sha256(_content(line.path)).hexdigest()}"


def _of_log(log: Path) -> Iterator[dict[str, Any]]:
    if log.exists():
        yield from map(json.loads, log.read_text(encoding="utf-8").splitlines())


def _of_database(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the commands of CUDA sources that CMake has written down; others are for the host."""
    for entry in json.loads(path.read_text(encoding="utf-8")):
        words = entry.get("arguments") or shlex.split(entry["command"])
        program = next((place for place, word in enumerate(words) if "nvcc" in Path(word).name), None)
        if program is not None:
            yield {"kind": "nvcc", "directory": entry["directory"], "arguments": words[program + 1 :]}
        elif entry["file"].endswith(_SUFFIXES):
            assume(
                f"{Path(entry['file']).name} is compiled by {Path(words[0]).name} and not by nvcc: it is not recorded"
            )


def _lines(entry: dict[str, Any], headers: Path | None) -> Iterator[Line]:
    words, specific = _without_architecture(entry["arguments"])
    sources = [word for word in words if word.endswith(_SUFFIXES) and not word.startswith("-")]
    rest = [word for word in words if word not in sources and not word.endswith((".o", ".obj", ".a", ".so"))]
    for source in sources:
        yield Line(source, entry["directory"], tuple(rest), specific, headers=headers)


def _without_architecture(words: Sequence[str]) -> tuple[list[str], frozenset[str]]:
    """Return the arguments that do not depend on a target, and the architectures with their own instructions."""
    kept: list[str] = []
    specific: set[str] = set()
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in _WITH_VALUE:
            value = value if equals else next(rest, "")
            parts = value.replace("[", ",").replace("]", ",").replace("=", ",").split(",")
            specific |= {part.rsplit("_", 1)[-1].rstrip("af") for part in parts if part[-1:] in "af" and "_" in part}
        elif word in _RELOCATABLE:
            kept.append("-rdc=true")
        elif word not in _ALONE:
            kept.append(word)
    return kept, frozenset(specific)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
