"""The orders of the harness: the target that the program is told of, and how its launches are compiled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Target:
    """A target: its name, Triton's backend for it, and what a program is told of the device."""

    name: str
    backend: str
    facts: Mapping[str, Any]

    @property
    def arch(self) -> int | str:
        """The architecture as Triton names it."""
        return self.name if self.backend == "hip" else int(self.name.removeprefix("sm_"))

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability that PyTorch tells."""
        major, minor = self.facts["capability"]
        return major, minor

    @property
    def warp(self) -> int:
        """The threads of a warp."""
        return int(self.facts["warp"])


@dataclass(frozen=True)
class Settings:
    """The settings by which a program is recorded and its launches are compiled.

    ``told`` is the device that the program is told of. ``configurations`` and ``specialisations`` are the most that
    are compiled of an autotuned launch and of a kernel; None for all. ``jobs`` compilers work at a time; each has
    ``seconds`` and ``memory`` (bytes). ``cache`` and ``output`` are folders, and ``commands`` are
    ``compile_commands.json`` files. Launches run on the emulator, which is in the folder ``emulator``, for the targets
    ``emulate``; or in a simulator of another project, with the words that start it for each target. ``card`` is a GPU
    of this machine on which they run too; empty for none.
    """

    told: Target
    targets: tuple[Target, ...]
    interpret: bool
    configurations: int | None
    specialisations: int | None
    jobs: int
    seconds: float
    memory: int
    cache: Path
    output: Path
    commands: tuple[Path, ...] = ()
    emulate: tuple[Target, ...] = ()
    emulator: Path = Path()
    simulator: Mapping[str, Any] | None = None
    card: Mapping[str, Any] = field(default_factory=dict)

    @property
    def card_target(self) -> Target:
        """The target that the GPU of this machine is."""
        return next(target for target in self.targets if target.name == self.card["target"])

    @property
    def run(self) -> list[Target]:
        """The targets that launches run for, on the GPU of this machine or elsewhere."""
        return [*self.emulate, *([self.card_target] if self.card else [])]


def read(path: Path) -> Settings:
    """Read the settings that the harness has written."""
    data = json.loads(path.read_text(encoding="utf-8"))
    targets = tuple(Target(**target) for target in data["targets"])
    return Settings(
        told=Target(**data["told"]),
        targets=targets,
        interpret=data["interpret"],
        configurations=data["configurations"],
        specialisations=data["specialisations"],
        jobs=data["jobs"],
        seconds=data["seconds"],
        memory=data["memory"],
        cache=Path(data["cache"]),
        output=Path(data["output"]),
        commands=tuple(map(Path, data["commands"])),
        emulate=tuple(target for target in targets if target.name in data["emulate"]),
        emulator=Path(data["emulator"]),
        simulator=data["simulator"],
        card=data["card"] if any(target.name == data["card"].get("target") for target in targets) else {},
    )
