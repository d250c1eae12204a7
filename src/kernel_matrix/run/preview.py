"""Describe what this machine will do with jobs, before they start."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from kernel_matrix.config.model import Matrix, Platform
from kernel_matrix.config.plan import Job
from kernel_matrix.run.decide import device_for
from kernel_matrix.run.settings import choose_executor
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.registry import programs


def preview(matrix: Matrix, jobs: Sequence[Job], machine: Machine, executor: str) -> Iterator[str]:
    """Yield one line for the machine, and for each platform its executor and what runs or is only compiled."""
    yield f"this machine: {'; '.join(device.name for device in machine.devices)}"
    for name in dict.fromkeys(job.platform for job in jobs):
        platform = matrix.platforms[name]
        chosen, why = choose_executor(executor, platform)
        yield f"{name}: executor {chosen} ({why})"
        toolchains = {job.toolchain for job in jobs if job.platform == name}
        devices = {target: machine.device_for(platform.device, target) for target in platform.targets}
        present = [target for target, device in devices.items() if device]
        emulated = [target for target, device in devices.items() if device and device.emulated]
        for lacking, targets in _by_lacking(platform, toolchains, emulated, in_container=chosen == "container"):
            answer = f"cannot be emulated here without {' and '.join(lacking)}" if lacking else "can be emulated here"
            yield f"{name}: {', '.join(targets)} {answer}."
        if not present:
            yield f"{name}: no {platform.title} device here. Nothing of it will run; what can be is compiled."
        elif not any(device_for(matrix, name, toolchain, present, machine) for toolchain in toolchains):
            yield f"{name}: {', '.join(present)} is here, and these jobs only compile."
        elif len(present) < len(platform.targets):
            rest = ", ".join(target for target in platform.targets if target not in present)
            yield f"{name}: {', '.join(present)} is here and runs; {rest} can only be compiled."


def _by_lacking(
    platform: Platform, toolchains: Collection[str], targets: Sequence[str], *, in_container: bool
) -> list[tuple[tuple[str, ...], list[str]]]:
    """Return the targets together that lack the same programs on this machine; a container brings its own."""
    finders = {program.name: program.find for program in programs()}
    together: dict[tuple[str, ...], list[str]] = {}
    for target in targets:
        entries = (entry for entry in platform.entries if target in (entry.targets or platform.targets))
        needed = [name for entry in entries if entry.toolchain in toolchains for name in entry.needs]
        lacking = () if in_container else tuple(name for name in dict.fromkeys(needed) if not finders[name]())
        together.setdefault(lacking, []).append(target)
    return [*together.items()]
