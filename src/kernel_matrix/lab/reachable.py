"""What each platform would need on this machine to be known one level better. Pure functions of what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernel_matrix.config.model import Matrix, Platform
from kernel_matrix.lab.doctor import Finding, Status
from kernel_matrix.results.evidence import Evidence
from kernel_matrix.vendors.machine import Machine


@dataclass(frozen=True)
class Prospect:
    """A platform here: the best evidence that this machine can give, what is lacking for more, and what to do."""

    platform: str
    reaches: Evidence
    lacking: str
    command: str


def prospects(matrix: Matrix, findings: list[Finding], machine: Machine, inside: str = "") -> list[Prospect]:
    """What each platform reaches here, or in the image of ``inside``."""
    status = {finding.what: finding.status for finding in findings}
    remedies = {finding.what: finding.remedy for finding in findings}
    blocking = next((finding for finding in findings if finding.needed and finding.status == "broken"), None)
    made = []
    for name, platform in matrix.platforms.items():
        start = f"ci/nox -s test-{name}"
        if inside and name != inside:
            belongs = (
                f"another image: this is {inside}'s" if platform.container else "no image, and runs outside of all"
            )
            made.append(Prospect(name, "planned", f"it belongs to {belongs}", f"outside: {start}"))
        elif blocking:
            made.append(Prospect(name, "planned", f"{blocking.what} first", blocking.remedy))
        else:
            start = f"outside, which runs its jobs in this image: {start}" if inside else start
            made.append(_prospect(matrix, name, platform, status, remedies, machine, start))
    return made


def _prospect(
    matrix: Matrix,
    name: str,
    platform: Platform,
    status: Mapping[str, Status],
    remedies: Mapping[str, str],
    machine: Machine,
    start: str,
) -> Prospect:
    here = [target for target in platform.targets if machine.device_for(platform.device, target)]
    absent = [target for target in platform.targets if target not in here]
    elsewhere = f"on a machine that has one: ci/nox -s test-{name}"
    has_image = platform.container is not None and status.get("Docker") == "good"  # and with it the compilers
    if platform.device == "cpu":
        if not here:
            return Prospect(name, "planned", f"a CPU of {', '.join(platform.targets)}", elsewhere)
        if status.get("g++") != "good" and not has_image:
            return Prospect(name, "planned", "a C++ compiler, which every backend but Triton needs", remedies["g++"])
        return Prospect(name, "ran", "", start)
    if platform.device == "software":
        return Prospect(name, "emulated", "it is a device in software, and runs nothing on hardware", start)
    driver = {"nvidia": "NVIDIA driver", "amd": "AMD driver"}.get(platform.device, "")
    if status.get(driver) == "broken":
        return Prospect(name, "compiled", "the GPU that is here, which cannot be used yet", remedies[driver])
    if here:
        return Prospect(name, "ran", f"{', '.join(absent)}: other GPUs; compiled only here" if absent else "", start)
    ahead = [lane.toolchain for lane in platform.entries if matrix.toolchains[lane.toolchain].ahead_of_time]
    if not ahead:
        return Prospect(name, "planned", f"a GPU of {', '.join(absent)}", elsewhere)
    if platform.device == "amd" and status.get("hipcc") != "good" and not has_image:
        text = "hipcc for TileLang, whose cells stay source only; Triton and TVM compile without it"
        return Prospect(name, "lowered", text, remedies["hipcc"])
    if platform.device == "apple":
        return Prospect(name, "lowered", "a Mac, which alone has the compiler", elsewhere)
    return Prospect(name, "compiled", f"a GPU of {', '.join(absent)}", elsewhere)
