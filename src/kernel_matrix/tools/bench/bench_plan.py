"""matrix.yaml -> the cases of the benchmark, for the toolchains of one device. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from kernel_matrix.base.errors import UserError
from kernel_matrix.config.model import Bench, BenchOp, Matrix, Scalar, ScalarOrList, as_list, has_values
from kernel_matrix.config.plan import case_name, ops_of
from kernel_matrix.store.record import BENCH
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.registry import vendor_named
from kernel_matrix.vendors.vendor import Device


@dataclass(frozen=True)
class Place:
    """The place where something is timed: a platform and its target, on a device of this machine."""

    platform: str
    target: str
    device: Device

    @property
    def gpu(self) -> bool:
        """Return whether the device is a GPU."""
        return vendor_named(self.device.vendor).gpu

    @property
    def framework_device(self) -> str:
        """Return the package's word for the device."""
        return vendor_named(self.device.vendor).framework_device


@dataclass(frozen=True)
class BenchCase:
    """One operator in one direction with one shape; ``toolchains`` are those that have it at a place."""

    op: str
    direction: str
    axes: Mapping[str, Scalar]
    toolchains: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Return the id without a place: ``OP.DIRECTION/NAME``."""
        return f"{self.op}.{self.direction}/{case_name(self.axes)}"

    def id_at(self, place: Place, toolchain: str) -> str:
        """Return the id of its record for one toolchain."""
        return f"{BENCH}{place.platform}/{place.target}/{toolchain}/{self.id}"


def bench_of(matrix: Matrix) -> Bench:
    """Return the section ``bench``.

    Raises:
        UserError: there is none.
    """
    if matrix.bench is None:
        raise UserError("matrix.yaml has no section 'bench': nothing says what is to be timed. Add one.")
    return matrix.bench


def places_of(matrix: Matrix, machine: Machine) -> list[Place]:
    """Return the platforms whose hardware this machine has; a device that emulates another one is none."""
    places = []
    for name, platform in matrix.platforms.items():
        if vendor_named(platform.device).emulates:
            continue
        for target in platform.targets:
            device = machine.device_for(platform.device, target)
            if device is not None and not device.emulated:
                places.append(Place(name, target, device))
    return places


def toolchains_at(matrix: Matrix, place: Place) -> list[str]:
    """Return the toolchains that run on the device of a place itself, and not in an emulator."""
    entries = matrix.platforms[place.platform].entries
    return [
        entry.toolchain
        for entry in entries
        if entry.runs and not entry.emulated and (entry.targets is None or place.target in entry.targets)
    ]


def cases_at(matrix: Matrix, place: Place, *, quick: bool = False, shapes: str = "") -> list[BenchCase]:
    """Return every case of a place, the operators in the order of matrix.yaml; ``shapes`` names a list of ``more``.

    Raises:
        UserError: there is no such list.
    """
    bench = bench_of(matrix)
    if shapes and shapes not in bench.more:
        there = ", ".join(bench.more) or "none"
        raise UserError(f"--shapes {shapes}: matrix.yaml has no such list under bench.more. There are: {there}.")
    usual = bench.more[shapes] if shapes else bench.shapes.get("gpu" if place.gpu else "cpu", [])
    groups = bench.quick if quick else usual
    cases: dict[str, BenchCase] = {}
    for name, op in bench.ops.items():
        for group in groups:
            for case in _cases_of(matrix, name, op, group):
                toolchains = tuple(t for t in toolchains_at(matrix, place) if _has(matrix, place, t, case))
                cases.setdefault(case.id, BenchCase(case.op, case.direction, case.axes, toolchains))
    return list(cases.values())


def _cases_of(matrix: Matrix, name: str, op: BenchOp, group: Mapping[str, ScalarOrList]) -> Iterator[BenchCase]:
    known = matrix.ops.get(name)
    axes = op.axes or (known.axes if known else [])
    defaults = known.defaults if known else {}
    values = [as_list(_value(axis, op.values, group, defaults)) for axis in axes]
    for direction in op.directions or (known.directions if known else []):
        for combination in product(*values):
            yield BenchCase(name, direction, dict(zip(axes, combination, strict=True)))


def _value(axis: str, *sources: Mapping[str, ScalarOrList]) -> ScalarOrList:
    """Return the value of an axis: the operator's own, the shape's, or the default.

    Raises:
        UserError: none of them has it.
    """
    for source in sources:
        if axis in source:
            return source[axis]
    raise UserError(f"matrix.yaml: bench: no shape says the axis '{axis}'. Add it to the shapes or to the operator.")


def _has(matrix: Matrix, place: Place, toolchain: str, case: BenchCase) -> bool:
    """Return whether a toolchain has the operator; what is no operator of matrix.yaml, all have."""
    if case.op not in matrix.ops:
        return True
    platform = matrix.platforms[place.platform]
    entries = [one for one in platform.entries if one.toolchain == toolchain]
    [entry, *_] = [one for one in entries if place.target in (one.targets or platform.targets)]
    return (case.op, case.direction) in ops_of(matrix, entry)


def rivals_of(bench: Bench, case: BenchCase, wanted: Sequence[str]) -> list[str]:
    """Return the rivals of a case, the baseline first; ``wanted`` are those that are asked for, all if none is.

    ``op`` can bind a rival to some operators, as axes bind it to some cases.
    """
    names = [name for name in bench.rivals if not wanted or name in wanted]
    return [name for name in names if has_values({**case.axes, "op": case.op}, dict(bench.only.get(name, {})))]


def narrowed(cases: Sequence[BenchCase], wanted: Sequence[str]) -> list[BenchCase]:
    """Return the cases whose id has one of the texts in it; all where none is given.

    Raises:
        UserError: a text is in no id.
    """
    for text in wanted:
        if not any(text in case.id for case in cases):
            raise UserError(f"--case {text}: no case of the benchmark has this in its id, such as {cases[0].id}.")
    return [case for case in cases if not wanted or any(text in case.id for text in wanted)]
