"""Read the commands of nvcc that were recorded: each CUDA source of one is compiled for every target."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..settings import Target
from ..stand_ins.questions import assume
from ..unit import Unit
from .source import Command, Source

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


@dataclass(kw_only=True)
class CudaSource(Unit):
    """One CUDA source that is compiled with the arguments of one command."""

    command: Command

    @property
    def group(self) -> object:
        """Return the part that is the same for all commands of one source."""
        return self.command.path

    def source(self, target: Target) -> Source:
        """Return what the compiler for a target is given."""
        return Source(self.command, target)

    def described(self) -> dict[str, Any]:
        """Return the source and its arguments."""
        command = self.command
        specific = {"specific": ",".join(sorted(command.specific))} if command.specific else {}
        return {
            "toolchain": "nvcc",
            "module": Path(command.file).parent.name,
            "kernel": Path(command.file).name,
            "source": hashlib.sha256(command.content).hexdigest()[:16],
            "types": {},
            "special": {},
            "constants": {},
            "options": {"nvcc": shlex.join(command.arguments), **specific},
        }


def recorded(log: Path, databases: Iterable[Path], headers: Path | None) -> list[CudaSource]:
    """Return the CUDA sources in a log of the stand-in compilers and in ``compile_commands.json`` files.

    One is known by its content and by its index among the different commands for it. The arguments are no part of this:
    a build may give others for AMD, and it is the same source all the same.
    """
    variants: dict[str, dict[tuple[str, ...], CudaSource]] = {}
    host = 0
    for entry in [*_of_log(log), *(entry for path in databases for entry in _of_database(path))]:
        if entry["kind"] != "nvcc":
            host += any(word in ("-c", "--compile") for word in entry["arguments"])
            continue
        for command in _commands(entry, headers):
            of_source = variants.setdefault(_key_of(command), {})
            of_source.setdefault(tuple(command.arguments), CudaSource(command=command)).times += 1
    if host:
        assume(f"{host} sources are C++ for the host: each became an empty object")
    for key, of_source in variants.items():
        for index, source in enumerate(of_source.values()):
            source.identity = hashlib.sha256(f"{key} {index}".encode()).hexdigest()[:16]
    return [source for of_source in variants.values() for source in of_source.values()]


def _key_of(command: Command) -> str:
    """Return where a source is and what is in it. Each vendor's recording has a folder of its own for extensions."""
    path = os.path.relpath(command.path).rpartition("/extensions/")[2]
    return f"{path} {hashlib.sha256(command.content).hexdigest()}"


def _of_log(log: Path) -> Iterator[dict[str, Any]]:
    if log.exists():
        yield from map(json.loads, log.read_text(encoding="utf-8").splitlines())


def _of_database(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the commands of CUDA sources that CMake has written down; others are for the host."""
    for entry in json.loads(path.read_text(encoding="utf-8")):
        words = entry.get("arguments") or shlex.split(entry["command"])
        program = next((index for index, word in enumerate(words) if "nvcc" in Path(word).name), None)
        if program is not None:
            yield {"kind": "nvcc", "directory": entry["directory"], "arguments": words[program + 1 :]}
        elif entry["file"].endswith(_SUFFIXES):
            assume(
                f"{Path(entry['file']).name} is compiled by {Path(words[0]).name} and not by nvcc: it is not recorded"
            )


def _commands(entry: dict[str, Any], headers: Path | None) -> Iterator[Command]:
    words, specific = _without_architecture(entry["arguments"])
    sources = [word for word in words if word.endswith(_SUFFIXES) and not word.startswith("-")]
    rest = [word for word in words if word not in sources and not word.endswith((".o", ".obj", ".a", ".so"))]
    for source in sources:
        yield Command(source, entry["directory"], tuple(rest), specific, headers)


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
