"""The tools of NVIDIA's compute-sanitizer: what each one sees, its command, and the reading of what it writes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix.base.errors import UserError

PROGRAM = "compute-sanitizer"
_IN_WHEEL = Path("nvidia", "cu13", "bin", PROGRAM)  # of the distribution nvidia-cuda-sanitizer-api
_VERSION = re.compile(r"[Vv]ersion (\d[\d.]*)")
# PyTorch takes large blocks of memory and gives parts of them: a read past the end of a tensor would hit another part.
ENVIRONMENT = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
# In the mangled name of PyTorch's own kernels, which nobody tests here and which take most of the time. initcheck has
# to see them, because they write what others read.
_PYTORCH = "2at6native"
# A kernel of compute-sanitizer's text: "at NAME+0x110 in FILE:LINE". The file is there where the code has lines.
_PLACE = re.compile(
    r"(?:at|by|access at|access of \w+ at) (?P<kernel>[^\n]+?)\+0x[0-9a-f]+(?: in (?P<line>\S+:\d+))?$", re.MULTILINE
)


@dataclass(frozen=True)
class Tool:
    """One tool. ``finding`` is the beginning of its findings' first line, a regular expression."""

    sees: str
    finding: str
    options: tuple[str, ...] = ()


TOOLS = {
    "memcheck": Tool(
        "reads and writes outside of what was allocated, and at addresses that are not aligned",
        "Invalid |Address 0x|Program hit",
        ("--report-api-errors", "no", "--padding", "512"),
    ),
    "racecheck": Tool(
        "accesses of shared memory that may come in either order",
        "(?:Error|Warning): (?:Race|Potential)",
        ("--racecheck-report", "analysis", "--num-cuda-barriers", "256"),
    ),
    "initcheck": Tool("reads of device memory that nobody wrote", "Uninitialized "),
    "synccheck": Tool(
        "barriers that not all threads of a block or warp reach", "Barrier error", ("--num-cuda-barriers", "256")
    ),
}


@dataclass(frozen=True)
class Place:
    """The kernel of a finding, and its line in the source where the code object has lines."""

    kernel: str
    line: str


def program() -> str:
    """Return the path of compute-sanitizer.

    Raises:
        UserError: it is not here.
    """
    in_wheel = Path(sysconfig.get_path("purelib")) / _IN_WHEEL
    found = shutil.which(PROGRAM) or (str(in_wheel) if in_wheel.exists() else "")
    if not found:
        raise UserError(f"{PROGRAM} is not here. It comes with CUDA, or: pip install nvidia-cuda-sanitizer-api")
    return found


def version(path: str) -> str:
    """Return the version of compute-sanitizer, or ``unknown``."""
    text = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    match = _VERSION.search(text)
    return match[1] if match else "unknown"


def watcher(path: str, name: str) -> str:
    """Return what a job is told of the program that watches its kernels' process (JSON)."""
    return json.dumps({"command": command(path, name, "{log}"), "finding": _begins(name)})


def command(path: str, name: str, log: str) -> list[str]:
    """Return the words that stand before the command of what a tool watches."""
    options = ("--target-processes", "all", "--log-file", log, "--print-limit", "50")
    return [path, "--tool", name, *options, *TOOLS[name].options]


def _begins(name: str) -> str:
    """Return the regular expression of a line that begins a finding of a tool."""
    return rf"^=+ +(?:{TOOLS[name].finding})"


def findings(name: str, detail: str) -> list[str]:
    """Return the findings in the detail of a result, one for each kernel and kind; none if it is no such detail."""
    if not re.match(_begins(name), detail):
        return []
    texts = re.split(rf"(?m)(?={_begins(name)})", detail)
    firsts = {(place(text).kernel, text.partition("\n")[0]): text.rstrip("= \n") for text in reversed(texts) if text}
    return list(reversed(firsts.values()))


def findings_in(name: str, log: str) -> list[str]:
    """Return the findings in all that a tool wrote, one for each kernel and kind."""
    first = re.search(_begins(name), log, re.MULTILINE)
    return findings(name, log[first.start() :]) if first else []


def place(detail: str) -> Place:
    """Return the kernel and the line that a finding names first; empty where it names none."""
    match = _PLACE.search(detail)
    return Place(match["kernel"], match["line"] or "") if match else Place("", "")
