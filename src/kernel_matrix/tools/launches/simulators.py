"""The simulators of other projects that may be on a machine, and run launches in the place of our emulators.

Each is found by its command on PATH. What stands here of it is from its own documents and sources; neither is on PyPI.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kernel_matrix.base.errors import UserError, unknown

_SECONDS = 20.0
_RACES = "emulation/rocjitsu/docs/race-detector.md"
_FAULTS = "issues 11378 and 10773"
_GOES_ON = r"(?:\n(?!\[vgpu\]|kernel-matrix:).+)*"


class Deviation(NamedTuple):
    """A difference from hardware that a project admits of its simulator, with the source and the targets."""

    text: str
    source: str
    targets: str = ""  # how their names begin


@dataclass(frozen=True)
class Simulator:
    """A simulator: its command, how a program is started in it, and how its output is read.

    ``start`` are the words before the program. In them ``{target}`` is the value of ``targets``, and ``{config}`` a
    file that matches the pattern ``configs`` next to the command, with ``settings`` added. ``version`` is searched in
    what ``--version`` prints, ``finding`` and ``refusal`` in what a run prints.
    """

    command: str
    project: str
    targets: Mapping[str, str]
    start: tuple[str, ...]
    version: str
    finding: str
    refusal: str
    deviations: tuple[Deviation, ...]
    configs: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


SIMULATORS: Mapping[str, Simulator] = {
    "pantheonsim": Simulator(
        command="vgpu",
        project="pantheongpu/pantheonsim",
        targets={
            "sm_80": "nvidia/a100",
            "sm_86": "nvidia/a10",
            "sm_89": "nvidia/l4",
            "sm_90": "nvidia/h100",
            "sm_100": "nvidia/b200",
            "sm_120": "nvidia/rtx5090",
            "gfx90a": "amd/mi250x",
            "gfx942": "amd/mi300x",
            "gfx950": "amd/mi350x",
        },
        start=("run", "--gpu", "{target}", "--race", "--"),
        version=r"^vgpu (\d\S*)",
        finding=r"VirtualGPU error \[(?:out-of-bounds|invalid-pointer|use-after-free|misaligned-access|data-race"
        r"|uninitialized-register)\]: .*" + _GOES_ON,
        refusal=r"VirtualGPU error \[.*" + _GOES_ON,
        deviations=(
            Deviation("reciprocals, roots, exponentials and logarithms are the host's", "amd/README.md", "gfx"),
            Deviation("sums of matrix products are formed in fp64 and rounded once", "amd/README.md", "gfx"),
            Deviation("a read behind a buffer is served up to the end of its page of 4 KiB", "amd/README.md", "gfx"),
            Deviation("kernels of Triton run as PTX", "nvidia/docs/jit.md", "sm_"),
            Deviation("a store that changes nothing in shared memory is no race", "README.md", "sm_"),
        ),
    ),
    "rocjitsu": Simulator(
        command="rocjitsu",
        project="ROCm/rocm-systems",
        targets={name: name for name in ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")},
        start=("--config", "{config}", "--"),
        version=r"^rocjitsu (\d\S*(?:\s+git revision: \S+)?)",
        finding=r"(?ms)^RACE .*?(?=^END_RACE)",
        refusal=r"(?m)^(?:rocjitsu: (?:unknown|config|failed|could not|no |execvp)|error: ).*",
        deviations=(
            Deviation("the target is experimental, others are beta", "emulation/rocjitsu/README.md", "gfx90a"),
            Deviation("races are found inside a workgroup only", _RACES),
            Deviation("what DPP or SDWA write may be called a race that is none", _RACES),
            Deviation("numbers of hipblaslt-bench were wrong in May 2026", "issue 5709", "gfx950"),
            Deviation("products of bf16 and of fp8 were wrong on gfx1250 in August and September 2026", _FAULTS),
        ),
        configs="share/rocjitsu/configs/{target}[_.]*json",
        settings={"plugins": {"race": {}}},
    ),
}


@dataclass(frozen=True)
class Found:
    """A simulator that is on this machine: its name and version, and what the recorder must know of it."""

    name: str
    version: str
    start: Mapping[str, Sequence[str]]
    finding: str
    refusal: str

    @property
    def text(self) -> str:
        """The name and the version."""
        return f"{self.name} {self.version}"

    @property
    def for_recorder(self) -> dict[str, Any]:
        """The simulator as the recorder reads it."""
        return asdict(self)

    def deviations(self, target: str) -> list[Deviation]:
        """Return what its project says of a target."""
        return [one for one in SIMULATORS[self.name].deviations if target.startswith(one.targets)]


def targets_of(name: str) -> Sequence[str]:
    """Return the targets of a simulator.

    Raises:
        UserError: there is no such simulator.
    """
    if name not in SIMULATORS:
        raise unknown("--with", "simulator", name, SIMULATORS)
    return list(SIMULATORS[name].targets)


def found(name: str, targets: Sequence[str], folder: Path) -> Found:
    """Return the simulator on PATH. The files that it is started with are written into the folder.

    Raises:
        UserError: it is not there, does not say its version, or has no file for a target.
    """
    simulator = SIMULATORS[name]
    path = shutil.which(simulator.command)
    if path is None:
        raise UserError(
            f"--with {name}: there is no command {simulator.command} on PATH. It is not on PyPI: build it from "
            f"{simulator.project} on GitHub."
        )
    start = {target: _words(simulator, Path(path), target, folder) for target in targets}
    return Found(name, _version(name, path), start, simulator.finding, simulator.refusal)


def _version(name: str, path: str) -> str:
    try:
        run = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=_SECONDS)
        said = run.stdout
    except (OSError, subprocess.TimeoutExpired):
        said = ""
    if match := re.search(SIMULATORS[name].version, said):
        return " ".join(match[1].split())
    raise UserError(f"--with {name}: {path} --version does not say a version of {name}: is it another program?")


def _words(simulator: Simulator, path: Path, target: str, folder: Path) -> list[str]:
    config = _config(simulator, path, target, folder) if simulator.configs else Path()
    named = {"target": simulator.targets[target], "config": config}
    return [str(path), *(word.format(**named) for word in simulator.start)]


def _config(simulator: Simulator, path: Path, target: str, folder: Path) -> Path:
    """Write the file of a target, with the settings added: the one with the shortest name that describes a device."""
    prefix = path.resolve().parent.parent
    pattern = simulator.configs.format(target=simulator.targets[target])
    for candidate in sorted(prefix.glob(pattern), key=lambda one: (len(one.name), one.name)):
        try:
            content = json.loads(candidate.read_text(encoding="utf-8"))
            has_device = "device" in content["vm"]["gpu"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if has_device:
            folder.mkdir(parents=True, exist_ok=True)
            written = folder / f"{target}.json"
            written.write_text(json.dumps({**content, **simulator.settings}), encoding="utf-8")
            return written
    raise UserError(f"--with {simulator.command}: no file {prefix / pattern} describes a device of {target}.")
