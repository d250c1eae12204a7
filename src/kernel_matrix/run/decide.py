"""Decide what this machine does with each case, and on which device. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Case, Job, platform_toolchain
from kernel_matrix.store.record import Outcome
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.registry import vendor_named
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


def decide(matrix: Matrix, case: Case, machine: Machine, *, excluded: bool = False) -> Decision:
    """Return the decision for a case; with ``excluded``, excluded cases are tried too."""
    if case.exclusion and not excluded:
        return Decision(outcome="excluded", reason=case.exclusion.reason)
    cell = case.cell
    platform = matrix.platforms[cell.platform]
    vendor = vendor_named(platform.device)
    device = device_for(matrix, cell.platform, cell.toolchain, [cell.target], machine)
    if device is not None:
        emulated = (
            device.emulated or vendor.emulates or platform_toolchain(matrix, cell.platform, cell.toolchain).emulated
        )
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

    There is none for a toolchain that only compiles on this platform, also where the hardware is.
    """
    if not platform_toolchain(matrix, platform, toolchain).runs:
        return None
    vendor = matrix.platforms[platform].device
    devices = (machine.device_for(vendor, target) for target in targets)
    return next((device for device in devices if device is not None), None)


def device_of(job: Job, decisions: Mapping[str, Decision]) -> Device | None:
    """Return the device that the job's cases run on; None where each of them is compiled or not tried."""
    devices = (decisions[case.id].device for case in job.cases)
    return next((device for device in devices if device is not None), None)
