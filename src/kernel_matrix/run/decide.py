"""Decide what this machine does with each case, and on which device; say it before the jobs start."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix.config.lock_faults import outdated
from kernel_matrix.config.model import Matrix, Platform
from kernel_matrix.config.plan import Case, Job
from kernel_matrix.config.suite import is_suite
from kernel_matrix.run.settings import choose_executor
from kernel_matrix.store.record import Outcome
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.registry import programs, vendor_named
from kernel_matrix.vendors.vendor import Device


@dataclass(frozen=True)
class Decision:
    """The action of this machine for a case, and its device; or the outcome and the reason where there is no action.

    ``device`` is None where the case is only compiled.
    """

    action: str = ""
    device: Device | None = None
    outcome: Outcome = "unavailable"
    reason: str = ""


def decide(
    matrix: Matrix, case: Case, machine: Machine, *, excluded: bool = False, in_container: bool = False
) -> Decision:
    """Return the decision for a case; with ``excluded``, excluded cases are tried too. A container has all programs."""
    if case.exclusion and not excluded:
        return Decision(outcome="excluded", reason=case.exclusion.reason)
    cell = case.cell
    platform = matrix.platforms[cell.platform]
    vendor = vendor_named(platform.device)
    device = device_for(matrix, cell.platform, cell.toolchain, [cell.target], machine)
    if device is not None and device.emulated and vendor.gpu and not in_container:
        device = None if _lacking(platform, [cell.toolchain], cell.target) else device  # there is no code to emulate
    if device is not None and not (case.timed and device.emulated):  # an emulator has no times
        emulated = device.emulated or vendor.emulates or platform.by_toolchain[cell.toolchain].emulated
        return Decision("emulate" if emulated else "run", device)
    if vendor.compiles_without_device and matrix.toolchains[cell.toolchain].ahead_of_time:
        return Decision("compile")
    others = ", ".join(target for other in machine.of(platform.device) for target in other.targets)
    lacking = f"this machine has no {platform.title} device for {cell.target}{f' (only {others})' if others else ''}"
    return Decision(reason=f"{lacking}, and {cell.toolchain} has nothing to compile without one")


def device_for(
    matrix: Matrix, platform: str, toolchain: str, targets: Collection[str], machine: Machine
) -> Device | None:
    """Return this machine's first device that runs the toolchain's code for one of the targets.

    There is none for a toolchain that only compiles on this platform, also where the hardware is; but an emulator runs
    its code.
    """
    section = matrix.platforms[platform]
    entry = section.by_toolchain[toolchain]
    devices = (section.device_on(machine, target, toolchain) for target in targets)
    return next((one for one in devices if one and (entry.runs or (one.emulated and entry.emulator))), None)


def device_of(job: Job, decisions: Mapping[str, Decision]) -> Device | None:
    """Return the device that the job's cases run on; None where each of them is compiled or not tried."""
    devices = (decisions[case.id].device for case in job.cases)
    return next((device for device in devices if device is not None), None)


def preview(
    matrix: Matrix, jobs: Sequence[Job], machine: Machine, executor: str, root: Path | None = None
) -> Iterator[str]:
    """Yield one line for the machine, and for each platform its executor and what runs or is only compiled.

    With the folder of matrix.yaml, a line for each lock whose requirements have changed since it was made comes first.
    """
    if root and executor != "current":
        yield from outdated(matrix, root, {matrix.lock_of(job.platform, job.toolchain) for job in jobs})
    yield f"this machine: {'; '.join(device.name for device in machine.devices)}"
    for name in dict.fromkeys(job.platform for job in jobs):
        platform = matrix.platforms[name]
        chosen, why = choose_executor(executor, platform)
        yield f"{name}: executor {chosen} ({why})"
        toolchains = {job.toolchain for job in jobs if job.platform == name}
        devices = {target: platform.device_on(machine, target) for target in platform.targets}
        present = [target for target, device in devices.items() if device]
        emulated = [target for target, device in devices.items() if device and device.emulated]
        for lacking, targets in _by_lacking(platform, toolchains, emulated, in_container=chosen == "container"):
            answer = f"cannot be emulated here without {' and '.join(lacking)}" if lacking else "can be emulated here"
            yield f"{name}: {', '.join(targets)} {answer}."
        if not present:
            rest = "" if is_suite(matrix) else "; what can be is compiled"
            yield f"{name}: no {platform.title} device here. Nothing of it will run{rest}."
        elif not any(device_for(matrix, name, toolchain, present, machine) for toolchain in toolchains):
            yield f"{name}: {', '.join(present)} is here, and these jobs only compile."
        elif len(present) < len(platform.targets):
            rest = ", ".join(target for target in platform.targets if target not in present)
            yield f"{name}: {', '.join(present)} is here and runs; {rest} can only be compiled."


def _by_lacking(
    platform: Platform, toolchains: Collection[str], targets: Sequence[str], *, in_container: bool
) -> list[tuple[tuple[str, ...], list[str]]]:
    """Return the targets together that lack the same programs on this machine; a container brings its own."""
    together: dict[tuple[str, ...], list[str]] = {}
    for target in targets:
        lacking = () if in_container else _lacking(platform, toolchains, target)
        together.setdefault(lacking, []).append(target)
    return [*together.items()]


def _lacking(platform: Platform, toolchains: Collection[str], target: str) -> tuple[str, ...]:
    """Return the programs that these toolchains need for a target and this machine lacks."""
    finders = {program.name: program.find for program in programs()}
    entries = (entry for entry in platform.entries if target in (entry.targets or platform.targets))
    needed = [name for entry in entries if entry.toolchain in toolchains for name in entry.needs]
    return tuple(name for name in dict.fromkeys(needed) if not finders[name]())
