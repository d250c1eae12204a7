"""A lane -> what it needs to be known better: a program or a device. `doctor` looks for the same on a machine."""

from __future__ import annotations

from collections.abc import Iterator

from kernel_matrix.base.evidence import EVIDENCE, Evidence
from kernel_matrix.config.model import Matrix, Platform, PlatformToolchain
from kernel_matrix.vendors.registry import programs, vendor_named


def lacking(matrix: Matrix, lane: str, reached: Evidence) -> str:
    """Return what a lane needs for more than the evidence that it has reached; empty if it ran, or is not known.

    A lane is ``PLATFORM/TARGET/TOOLCHAIN``.
    """
    name, target, toolchain = lane.split("/")
    platform = matrix.platforms.get(name)
    entries = [one for one in platform.entries if one.toolchain == toolchain] if platform else []
    entry = next((one for one in entries if target in (one.targets or [target])), None)
    if platform is None or entry is None or reached in ("ran", "held", "told"):
        return ""
    return " ".join(f"{text}." for text in _needs(matrix, platform, entry, target, reached))


def _needs(
    matrix: Matrix, platform: Platform, entry: PlatformToolchain, target: str, reached: Evidence
) -> Iterator[str]:
    """Yield a sentence for each thing that is needed: the programs first."""
    vendor, installs = vendor_named(platform.device), {program.name: program.install for program in programs()}
    for program, without in entry.needs.items():
        if EVIDENCE.index(reached) <= EVIDENCE.index(without):
            what = {"planned": "make code", "lowered": "compile it"}.get(without, "run it")
            yield f"To {what}, {program} is needed{f': {text}' if (text := installs.get(program, '')) else ''}"
    if vendor.emulates or vendor.hosted:
        return
    words = f", also called {vendor.names[target]}" if target in vendor.names else ""
    device = vendor.lacking or f"{vendor.title}'s {vendor.kind} for {target}{words}"
    if entry.runs:
        yield f"To run {'on the device itself' if reached == 'emulated' else 'it'}, this is needed: {device}"
    else:
        yield f"No program here runs it on {device} ('runs: false')"
    if reached == "planned" and not matrix.toolchains[entry.toolchain].ahead_of_time:
        yield "This toolchain compiles nothing without the device"
