"""Checks that every name in matrix.yaml names something, and that nothing stands twice."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from kernel_matrix.base.errors import did_you_mean
from kernel_matrix.config.document import Fault, Place
from kernel_matrix.config.model import ASSERTED, Matrix, Op, Output, Platform, Scalar, ScalarOrList, as_list
from kernel_matrix.config.suite import is_suite
from kernel_matrix.vendors.registry import vendor_named

_MOST_CASES = 2_000_000  # of an operator in all cells: this repository's matrix has 43,000 of one
_HOSTED = re.compile(r"(ubuntu|windows|macos)-")


def directions(matrix: Matrix) -> Iterator[Fault]:
    """Yield the directions of the package that have no cap of the error, and a sample that is of no suite."""
    if matrix.package.sample and not is_suite(matrix):
        yield ("package", "sample"), "a sample is of the tests of a suite without 'ops'. Take it out."
    place: Place = ("package", "directions")
    yield from _twice(place, matrix.package.directions)
    for index, direction in enumerate(matrix.package.directions):
        if direction == ASSERTED and not is_suite(matrix):
            text = f"'{ASSERTED}' is the direction of the tests of a suite without 'ops'. Give it another name."
            yield (*place, index), text
        elif direction not in matrix.accuracy.caps:
            yield (*place, index), f"accuracy.caps has no cap for '{direction}'. Add it there."


def toolchains(matrix: Matrix) -> Iterator[Fault]:
    """Yield the requirements that are not well formed, and the unknown operators and backends of a toolchain."""
    backends = {toolchain.backend for toolchain in matrix.toolchains.values()}
    for name, toolchain in matrix.toolchains.items():
        yield from each(("toolchains", name, "uses"), "backend", toolchain.uses, backends)
        yield from _kernel(matrix, ("toolchains", name, "kernel"), toolchain.kernel)
        yield from requirements(("toolchains", name, "requires"), toolchain.requires)
        yield from _pythons(("toolchains", name, "python"), toolchain.python)
        yield from _unknown_ops(matrix, ("toolchains", name, "ops"), toolchain.ops or ())


def _kernel(matrix: Matrix, place: Place, path: str) -> Iterator[Fault]:
    """Yield the words in the path of a kernel that stand for nothing, and a path where no operator is described."""
    if path and is_suite(matrix):
        yield place, "a suite without 'ops' has no described operators. Take it out, or write 'ops'."
        return
    known = {"op", "backend", *(axis for op in matrix.ops.values() for axis in op.axes)}
    for word in re.findall(r"{(\w*)}", path):
        yield from unknown(place, "word", word, known)
    if re.search(r"[{}]", re.sub(r"{\w+}", "", path)):
        yield place, "a brace stands alone. Write {op}, {backend} or the name of an axis."


def platforms(matrix: Matrix) -> Iterator[Fault]:
    """Yield the faults of a platform's targets, labels, machines and toolchains."""
    for name, platform in matrix.platforms.items():
        place: Place = ("platforms", name)
        yield from _twice((*place, "targets"), platform.targets)
        if any(map(_HOSTED.match, platform.runner)) and platform.runner != [matrix.ci.hosted]:
            text = f"hosted machines stand in ci.hosted. Write [{matrix.ci.hosted}] alone, or own ones."
            yield (*place, "runner"), text
        used = {target for entry in platform.entries for target in entry.targets or platform.targets}
        for index, target in enumerate(platform.targets):
            if target not in used:
                text = f"no entry of 'toolchains' uses '{target}', so it has no cell. Give it to one, or take it out."
                yield (*place, "targets", index), text
        for index, target in enumerate(platform.machines or ()):
            yield from _unknown_target(platform, (*place, "machines", index), target)
        yield from _platform_toolchains(matrix, platform, (*place, "toolchains"))


def unknown_targets(matrix: Matrix) -> Iterator[str]:
    """Yield a sentence for each target that this version does not know. It may be a newer one."""
    for name, platform in matrix.platforms.items():
        known = vendor_named(platform.device).known
        for target in platform.targets if known else ():
            if re.sub(r"(?<=\d)[af]$", "", target) not in known and target not in known:
                said = f"nothing is known of '{target}', so nobody checks what a launch of it needs."
                yield f"platforms.{name}.targets: {said}{did_you_mean(target, known)}"


def _platform_toolchains(matrix: Matrix, platform: Platform, place: Place) -> Iterator[Fault]:
    yield from _entries_of_one_toolchain(platform, place)
    for index, entry in enumerate(platform.entries):
        yield from unknown((*place, index), "toolchain", entry.toolchain, matrix.toolchains)
        yield from _unknown_ops(matrix, (*place, index, "ops"), entry.ops or ())
        for target in entry.targets or ():
            yield from _unknown_target(platform, (*place, index), target)
        axes = {axis for op in matrix.ops.values() for axis in op.axes}
        for key, choice in (("cases", entry.cases), *(("quick", choice) for choice in entry.quick_choices)):
            yield from keys((*place, index, key), "axis", choice, axes)


def _entries_of_one_toolchain(platform: Platform, place: Place) -> Iterator[Fault]:
    """Yield the entries of a toolchain that share a target with an earlier one, or say something else of its job."""
    for index, entry in enumerate(platform.entries):
        earlier = [other for other in platform.entries[:index] if other.toolchain == entry.toolchain]
        targets = {target for other in earlier for target in other.targets or platform.targets}
        if shared := [target for target in entry.targets or platform.targets if target in targets]:
            text = f"'{entry.toolchain}' is here twice for {', '.join(shared)}, so its cells would be too."
            yield (*place, index), f"{text} Take one out, or give each its own 'targets'."
        for key in ("runs", "emulated", "emulator", "environment", "lock"):
            if any(getattr(other, key) != getattr(entry, key) for other in earlier):
                text = f"an earlier entry of '{entry.toolchain}' has another '{key}'."
                yield (*place, index, key), f"{text} They are one job: give both the same."


def ops(matrix: Matrix) -> Iterator[Fault]:
    """Yield the axes that stand twice, the unknown directions, and the defaults of unknown axes."""
    for name, op in matrix.ops.items():
        place: Place = ("ops", name)
        yield from _twice((*place, "axes"), op.axes)
        yield from _twice((*place, "directions"), op.directions)
        yield from each((*place, "directions"), "direction", op.directions, matrix.package.directions)
        yield from keys((*place, "defaults"), "axis", op.defaults, op.axes)


def outputs(matrix: Matrix) -> Iterator[Fault]:
    """Yield the directions without outputs, the outputs that stand twice, and the unknown axes that they depend on."""
    for name, op in matrix.ops.items():
        place: Place = ("ops", name, "outputs")
        yield from keys(place, "direction", op.outputs or (), op.directions)
        for direction in op.directions if op.outputs is not None else ():
            entries = op.outputs.get(direction, []) if op.outputs else []
            if not entries:
                yield place, f"the direction '{direction}' has no output. Name its outputs."
            yield from _outputs(op, (*place, direction), entries)
        yield from keys(("ops", name, "canary"), "axis", op.canary, op.axes)


def sums(matrix: Matrix) -> Iterator[Fault]:
    """Yield the sums over tokens that are no output of their operator, and those that stand twice."""
    for name, op in matrix.ops.items():
        place: Place = ("ops", name, "sums")
        yield from _twice(place, op.sums)
        if known := _output_names(op):
            yield from each(place, "output", op.sums, known)


def budgets(matrix: Matrix) -> Iterator[Fault]:
    """Yield the budgets of operators, directions and outputs that are not there, and those that stand twice."""
    entries = matrix.accuracy.budgets
    for index, own in enumerate(entries):
        place: Place = ("accuracy", "budgets", index)
        if any(own.place == other.place and own.limits.keys() & other.limits for other in entries[:index]):
            yield place, f"an earlier entry has a limit of {own.place} too. Take one out."
        if is_suite(matrix):
            continue  # its operators are the files of tests, which only an environment knows
        op = matrix.ops.get(own.op)
        if op is None:
            yield (*place, "op"), f"unknown operator '{own.op}'.{did_you_mean(own.op, matrix.ops)}"
            continue
        if own.direction:
            yield from unknown((*place, "direction"), "direction", own.direction, op.directions)
        if own.output and (known := _output_names(op)):
            yield from unknown((*place, "output"), "output", own.output, known)


def _output_names(op: Op) -> set[str]:
    """Return the outputs of an operator in all directions."""
    entries = (entry for of_direction in (op.outputs or {}).values() for entry in of_direction)
    return {name for entry in entries for name in (entry if isinstance(entry, dict) else [entry])}


def _outputs(op: Op, place: Place, entries: Sequence[Output]) -> Iterator[Fault]:
    named = [next(iter(entry.items())) if isinstance(entry, dict) else (entry, {}) for entry in entries]
    for index, (output, where) in enumerate(named):
        if output in [other for other, _ in named[:index]]:
            yield (*place, index), f"the output '{output}' is here twice. Take one out."
        for axis in where:
            yield from unknown((*place, index), "axis", axis, op.axes)


def groups(matrix: Matrix) -> Iterator[Fault]:
    """Yield the groups of cases with an unknown axis or direction, or without an axis that they need."""
    for name, op in matrix.ops.items():
        for tier, tier_groups in op.cases.items():
            for index, group in enumerate(tier_groups):
                yield from _group(op, ("ops", name, "cases", tier, index), group)
        for index, group in enumerate(op.timed):
            yield from _group(op, ("ops", name, "timed", index), group)


def _group(op: Op, place: Place, group: Mapping[str, ScalarOrList]) -> Iterator[Fault]:
    yield from keys(place, "axis", group, [*op.axes, "direction"])
    for value in as_list(group.get("direction", [])):
        yield from unknown(place, "direction", str(value), op.directions)
    for axis in op.axes:
        if axis not in group and axis not in op.defaults:
            yield place, f"the axis '{axis}' is missing, and it has no default. Add it."


def sizes(matrix: Matrix) -> Iterator[Fault]:
    """Yield the operators with more cases, in all cells that they may have, than a plan can hold."""
    platforms = matrix.platforms.values()
    lanes = sum(len(entry.targets or platform.targets) for platform in platforms for entry in platform.entries)
    for name, op in matrix.ops.items():
        groups = [*(group for of_tier in op.cases.values() for group in of_tier), *op.timed]
        cases = sum(math.prod(len(as_list(group.get(axis, []))) or 1 for axis in op.axes) for group in groups)
        if (number := cases * lanes * len(op.directions)) > _MOST_CASES:
            text = f"its cases in all cells are up to {number}, and {_MOST_CASES} are the most. Take values out."
            yield ("ops", name, "cases"), text


def events(matrix: Matrix) -> Iterator[Fault]:
    """Yield the unknown toolchains of an event."""
    for name, event in matrix.ci.events.items():
        yield from each(("ci", "events", name, "toolchains"), "toolchain", event.toolchains or (), matrix.toolchains)


def clusters(matrix: Matrix) -> Iterator[Fault]:
    """Yield the targets that no platform has and a cluster is to have, and the GPUs that their rows do not ask for."""
    devices = {target: platform.device for platform in matrix.platforms.values() for target in platform.targets}
    for target in matrix.ci.kubernetes.targets if matrix.ci.kubernetes else ():
        yield from unknown(("ci", "kubernetes", "targets", target), "target", target, devices)
    slurm = matrix.ci.slurm
    for target, ask in slurm.targets.items() if slurm else ():
        place: Place = ("ci", "slurm", "targets", target)
        yield from unknown(place, "target", target, devices)
        if target in devices and vendor_named(devices[target]).gpu and not (ask.gres or (slurm and slurm.gres)):
            yield place, "a row of a GPU asks for it. Write what the cluster calls it: 'gres: gpu:NAME'."


def unknown(place: Place, kind: str, name: Scalar, known: Collection[Scalar] | Collection[str]) -> Iterator[Fault]:
    """Yield a name that is not among the known ones, with the one that was perhaps meant."""
    if name not in known:
        yield place, f"unknown {kind} '{name}'.{did_you_mean(str(name), map(str, known))}"


def each(place: Place, kind: str, listed: Sequence[str], known: Collection[str]) -> Iterator[Fault]:
    """Yield the names of a list that are not among the known ones."""
    for index, name in enumerate(listed):
        yield from unknown((*place, index), kind, name, known)


def keys(place: Place, kind: str, mapping: Iterable[str], known: Collection[str]) -> Iterator[Fault]:
    """Yield the keys of a mapping that are not among the known ones."""
    for key in mapping:
        yield from unknown((*place, key), kind, key, known)


def requirements(place: Place, texts: Sequence[str]) -> Iterator[Fault]:
    """Yield the texts that are no requirements (PEP 508)."""
    for index, text in enumerate(texts):
        try:
            Requirement(text)
        except InvalidRequirement as error:
            yield (*place, index), f"'{text}' is not a requirement: {str(error).splitlines()[0]}. Write 'name>=1.2'."


def _pythons(place: Place, text: str) -> Iterator[Fault]:
    """Yield the text if it is no range of versions (PEP 440)."""
    try:
        SpecifierSet(text)
    except InvalidSpecifier as error:
        yield place, f"{error}. Write '>=3.11,<3.13'."


def _unknown_ops(matrix: Matrix, place: Place, texts: Sequence[str]) -> Iterator[Fault]:
    if is_suite(matrix):  # which test files there are is known when they have been collected
        return
    known = [*matrix.ops, *(f"{name}.{direction}" for name, op in matrix.ops.items() for direction in op.directions)]
    yield from each(place, "op", texts, known)


def _unknown_target(platform: Platform, place: Place, target: str) -> Iterator[Fault]:
    if target not in platform.targets:
        yield place, f"'{target}' is no target of this platform.{did_you_mean(target, platform.targets)}"


def _twice(place: Place, values: Sequence[str]) -> Iterator[Fault]:
    before: set[str] = set()
    for index, value in enumerate(values):
        if value in before:
            yield (*place, index), f"'{value}' is here twice, so its cells would be too. Take one out."
        before.add(value)
