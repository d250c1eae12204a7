"""Find the evidence that each platform can reach on this machine, and the programs that it lacks for more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernel_matrix.base.evidence import EVIDENCE, Evidence
from kernel_matrix.config.model import Matrix, Platform
from kernel_matrix.vendors.finding import Finding
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.registry import vendor_named


@dataclass(frozen=True)
class Prospect:
    """A platform here: the evidence that all its toolchains can reach, what is lacking for more, and what to do."""

    platform: str
    reaches: Evidence
    lacking: str
    command: str


def prospects(matrix: Matrix, findings: Sequence[Finding], machine: Machine, inside: str = "") -> list[Prospect]:
    """Return what each platform reaches here, or in the image of the platform ``inside``."""
    by_name = {finding.what: finding for finding in findings}
    blocking = next((finding for finding in findings if finding.needed and finding.status == "broken"), None)
    answers = []
    for name, platform in matrix.platforms.items():
        start = f"`kernel-matrix run --platform {name}`"
        if inside and name != inside:
            owner = f"another image: this is {inside}'s" if platform.container else "no image, and runs outside of all"
            answers.append(Prospect(name, "planned", f"it belongs to {owner}", f"outside: {start}"))
        elif blocking:
            answers.append(Prospect(name, "planned", f"{blocking.what} first", blocking.remedy))
        else:
            start = f"outside, which runs its jobs in this image: {start}" if inside else start
            answers.append(_prospect(matrix, name, by_name, machine, start))
    return answers


def _prospect(matrix: Matrix, name: str, findings: Mapping[str, Finding], machine: Machine, start: str) -> Prospect:
    """Return what the platform reaches with the devices and the programs that are here."""
    platform = matrix.platforms[name]
    prospect = _with_devices(matrix, name, findings, machine, start)
    docker, hardware = findings.get("Docker"), _hardware(platform, machine)
    if platform.container is not None and docker is not None and docker.status == "good":
        return prospect  # the image brings the programs
    for program in programs_needed(platform):
        finding = findings.get(program)
        evidence, text = evidence_without(platform, program)
        if finding is None or finding.status == "good" or EVIDENCE.index(evidence) >= EVIDENCE.index(prospect.reaches):
            continue
        needing = [entry.targets or platform.targets for entry in platform.entries if program in entry.needs]
        if not hardware or hardware & {target for targets in needing for target in targets}:
            prospect = Prospect(name, evidence, text, finding.remedy)
        elif not prospect.lacking:  # the targets whose hardware is here do not need it
            prospect = Prospect(name, prospect.reaches, text, finding.remedy)
    return prospect


def _hardware(platform: Platform, machine: Machine) -> set[str]:
    """Return the targets of the platform whose hardware is here."""
    devices = {target: platform.device_on(machine, target) for target in platform.targets}
    return {target for target, device in devices.items() if device is not None and not device.emulated}


def _with_devices(matrix: Matrix, name: str, findings: Mapping[str, Finding], machine: Machine, start: str) -> Prospect:
    """Return what the platform reaches with the devices that are here and any program."""
    platform = matrix.platforms[name]
    vendor = vendor_named(platform.device)
    runs = any(entry.runs for entry in platform.entries)
    present = [target for target in platform.targets if runs and platform.device_on(machine, target)]
    absent = [target for target in platform.targets if target not in present]
    compiles_ahead = any(matrix.toolchains[entry.toolchain].ahead_of_time for entry in platform.entries)
    without_device = vendor.without_device if compiles_ahead else "planned"
    driver = findings.get(vendor.driver_finding)
    if driver is not None and driver.status == "broken":
        lacking = f"the {vendor.kind} that is here, which cannot be used yet"
        return Prospect(name, without_device, lacking, driver.remedy)
    if present:
        lacking = f"{', '.join(absent)}: other {vendor.kind}s; compiled only here" if absent else vendor.limit
        only_software = not vendor.emulates and not _hardware(platform, machine)
        return Prospect(name, "emulated" if only_software else vendor.with_device, lacking, start)
    if machine.has(platform.device) and not runs:
        return Prospect(name, without_device, "a toolchain that runs on it: matrix.yaml has 'runs: false'", start)
    lacking = vendor.lacking or f"a {vendor.kind} of {', '.join(absent)}"
    return Prospect(name, without_device, lacking, f"on a machine that has one: `kernel-matrix run --platform {name}`")


def programs_needed(platform: Platform) -> tuple[str, ...]:
    """Return the programs that any toolchain of the platform needs."""
    return tuple(dict.fromkeys(program for entry in platform.entries for program in entry.needs))


def purpose_of(matrix: Matrix, program: str) -> str:
    """Return the toolchains, by platform, that need a program."""
    uses = [
        f"{name}: {_cost(platform, program)}"
        for name, platform in matrix.platforms.items()
        if program in programs_needed(platform)
    ]
    return "; ".join(uses) or "no toolchain of matrix.yaml needs it of this machine"


def evidence_without(platform: Platform, program: str) -> tuple[Evidence, str]:
    """Return the evidence that all toolchains of the platform reach without a program, and which of them need it."""
    least = min((entry.needs[program] for entry in platform.entries if program in entry.needs), key=EVIDENCE.index)
    others = any(program not in entry.needs for entry in platform.entries)
    return least, f"{program} ({_cost(platform, program)}{'; the others do not need it' if others else ''})"


def _cost(platform: Platform, program: str) -> str:
    """Return which toolchains stay at which evidence without a program; the targets, where others do without it."""
    toolchains: dict[Evidence, dict[str, list[str]]] = {}
    all_targets: dict[str, int] = {}
    for entry in platform.entries:
        targets = entry.targets or platform.targets
        all_targets[entry.toolchain] = all_targets.get(entry.toolchain, 0) + len(targets)
        if program in entry.needs:
            toolchains.setdefault(entry.needs[program], {}).setdefault(entry.toolchain, []).extend(targets)
    parts = []
    for evidence, by_name in toolchains.items():
        names = [
            name if len(targets) == all_targets[name] else f"{name} ({', '.join(targets)})"
            for name, targets in by_name.items()
        ]
        parts.append(f"{', '.join(names)} stay{'s' if len(names) == 1 else ''} at '{evidence}' without it")
    return ", ".join(parts)
