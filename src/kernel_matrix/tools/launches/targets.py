"""The targets that launches are compiled for, what a program is told of each, and the limits of a launch there."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.job.ahead.targets import TARGETS


@dataclass(frozen=True)
class Target:
    """An architecture: ``facts`` are what a program is told of a device that has it, and the limits of a launch."""

    name: str
    vendor: Vendor
    facts: Mapping[str, Any]

    @property
    def for_recorder(self) -> dict[str, Any]:
        """The target as the recorder reads it."""
        return {"name": self.name, "backend": self.vendor.backend, "facts": dict(self.facts)}


@dataclass(frozen=True)
class Vendor:
    """A vendor: its platform in the dashboard, and Triton's name of the backend that compiles for it."""

    name: str
    platform: str
    title: str
    backend: str
    artifact: str
    recorded_as: str
    source: str
    targets: Mapping[str, Mapping[str, Any]]

    def target(self, name: str) -> Target:
        """Return the target of that name."""
        return Target(name, self, self.targets[name])

    @property
    def defaults(self) -> list[Target]:
        """The targets that are compiled for unless others are named."""
        return [self.target(name) for name, facts in self.targets.items() if facts.get("default")]


@functools.cache
def vendors() -> tuple[Vendor, ...]:
    """Return all vendors."""
    content = tomllib.loads(files("kernel_matrix.tools.launches").joinpath("targets.toml").read_text(encoding="utf-8"))
    for entry in content.values():
        more = (name for name, target in TARGETS.items() if target.backend == entry["backend"])
        names = dict.fromkeys((*entry["targets"], *more))
        entry["targets"] = {name: {**_of_table(name), **entry["targets"].get(name, {})} for name in names}
    return tuple(Vendor(name=name, **entry) for name, entry in content.items())


def _of_table(name: str) -> dict[str, Any]:
    """Return what every part of the harness knows of a target."""
    known = TARGETS[name]
    return {"capability": list(known.capability), "warp": known.warp, "emulated": known.emulated, **known.limits}


def known() -> dict[str, Target]:
    """Return all targets by name."""
    return {name: vendor.target(name) for vendor in vendors() for name in vendor.targets}


def emulated_targets() -> tuple[str, ...]:
    """Return the names of the targets that an emulator of this project has."""
    return tuple(name for name, target in known().items() if target.facts.get("emulated"))


def targets_named(names: Sequence[str]) -> list[Target]:
    """Return the targets of these names, or the default ones of every vendor if there are none.

    Raises:
        UserError: there is no such target.
    """
    if not names:
        return [target for vendor in vendors() for target in vendor.defaults]
    return [_named("--targets", name) for name in dict.fromkeys(names)]


def told(names: Sequence[str], targets: Iterable[Target]) -> dict[str, Target]:
    """Return the target that a program is told of, by the vendor whose targets are compiled for.

    ``names`` are targets that are chosen for this, instead of the vendors' own.

    Raises:
        UserError: there is no such target, or no line of ``targets.toml`` says what its device is.
    """
    chosen = {target.vendor.name: target for target in (_named("--told", name) for name in names)}
    if lacking := [target.name for target in chosen.values() if "device" not in target.facts]:
        raise UserError(f"--told: {lacking[0]}: no line of targets.toml says what its device is. Code is made for it.")
    return {
        target.vendor.name: chosen.get(target.vendor.name, target.vendor.target(target.vendor.recorded_as))
        for target in targets
    }


def over_limits(target: Target, figures: Mapping[str, float]) -> str:
    """Return why the target cannot launch a kernel with these figures; empty if it can.

    Triton's compiler does not check this: its launcher does, with a device.
    """
    faults = []
    for name, unit, what in (
        ("threads", "threads", "a block has"),
        ("shared", "bytes of shared memory", "a block needs"),
        ("tensor_memory", "columns of tensor memory", "a block needs"),
    ):
        most = target.facts.get(name)
        if most is not None and (figure := figures.get(name, 0)) > most:
            faults.append(f"{what} {figure:g} {unit}, and {target.name} has {most}")
    return "; ".join(faults)


def _named(option: str, name: str) -> Target:
    if name not in known():
        raise unknown(option, "target", name, known())
    return known()[name]
