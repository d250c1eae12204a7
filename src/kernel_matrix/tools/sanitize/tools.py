"""The tools: what each one sees, its command, and the reading of what it writes.

Four are of NVIDIA's compute-sanitizer, on a GPU. tilelens looks at Triton's kernels in Triton's interpreter, on a CPU.
"""

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
TILELENS = "tilelens"
# What tilelens imports and a Triton environment lacks. Its own requirements would bring Triton once more.
PINS = ("tilelens==3.1.1", "z3-solver==4.15.3.0", "anytree==2.13.0")
_HOOK = Path(__file__).with_name("inside") / "tilelens_hook.py"
_WITH_HOOK = 'log=$1; libraries=$2; hook=$3; python=$4; shift 4; exec "$python" "$hook" "$log" "$libraries" "$@"'
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
_TILELENS_PLACE = re.compile(r"^=+ +at (?P<kernel>\w+)(?: in (?P<line>\S+:\d+))?$", re.MULTILINE)


@dataclass(frozen=True)
class Tool:
    """One tool.

    ``finding`` is the beginning of its findings' first line, a regular expression, and ``cannot`` the beginning of a
    line that says what it cannot look at. ``evidence`` is the evidence of the cases that it runs with.
    """

    sees: str
    finding: str
    options: tuple[str, ...] = ()
    cannot: str = ""
    evidence: str = "ran"
    place: re.Pattern[str] = _PLACE


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
    TILELENS: Tool(
        "loads and stores of Triton's kernels outside of the tensor, for every program of the grid",
        "Out of bounds: ",
        cannot="Cannot look at ",
        evidence="emulated",
        place=_TILELENS_PLACE,
    ),
}
OF_NVIDIA = tuple(name for name in TOOLS if name != TILELENS)


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


def libraries(build: Path) -> str:
    """Return the folder below ``build`` with tilelens, which is fetched if it is not there.

    Raises:
        UserError: it could not be fetched.
    """
    from kernel_matrix.run.environments.venv import uv  # what it imports is not there where a judge has PyTorch alone
    from kernel_matrix.run.executors import InstallError

    folder = build / TILELENS
    if not (folder / "complete").exists():
        try:
            uv("pip", "install", "--quiet", "--no-deps", "--target", str(folder), *PINS)
        except InstallError as error:
            raise UserError(f"{TILELENS} could not be installed: {' '.join(str(error).split())[:300]}") from None
        (folder / "complete").touch()
    return str(folder)


def version(path: str) -> str:
    """Return the version of compute-sanitizer, or ``unknown``."""
    text = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    match = _VERSION.search(text)
    return match[1] if match else "unknown"


def watcher(path: str, name: str) -> str:
    """Return what a job is told of the program that watches its kernels' process (JSON)."""
    tool = TOOLS[name]
    words = command(path, name, "{log}")
    if name == TILELENS:
        words = ["sh", "-c", _WITH_HOOK, "sh", "{log}", path, str(_HOOK)]
    lines = "|".join(filter(None, (tool.finding, tool.cannot)))
    return json.dumps({"command": words, "finding": rf"^=+ +(?:{lines})"})


def command(path: str, name: str, log: str) -> list[str]:
    """Return the words of a tool of compute-sanitizer. The command of the program that it watches follows them."""
    options = ("--target-processes", "all", "--log-file", log, "--print-limit", "50")
    return [path, "--tool", name, *options, *TOOLS[name].options]


def _begins(name: str) -> str:
    """Return the regular expression of a line that begins a finding of a tool."""
    return rf"^=+ +(?:{TOOLS[name].finding})"


def findings(name: str, detail: str) -> list[str]:
    """Return the findings in the detail of a result, one for each kernel and kind; none if it is no such detail."""
    cannot = TOOLS[name].cannot
    if cannot:  # such a line may stand before a finding of another kernel
        detail = re.sub(rf"(?m)^=+ +(?:{cannot}).*\n?", "", detail)
    if not re.match(_begins(name), detail):
        return []
    texts = re.split(rf"(?m)(?={_begins(name)})", detail)
    firsts = {
        (place(name, text).kernel, text.partition("\n")[0]): text.rstrip("= \n") for text in reversed(texts) if text
    }
    return list(reversed(firsts.values()))


def findings_in(name: str, log: str) -> list[str]:
    """Return the findings in all that a tool wrote, one for each kernel and kind."""
    first = re.search(_begins(name), log, re.MULTILINE)
    return findings(name, log[first.start() :]) if first else []


def place(name: str, detail: str) -> Place:
    """Return the kernel and the line that a finding names first; empty where it names none."""
    match = TOOLS[name].place.search(detail)
    return Place(match["kernel"], match["line"] or "") if match else Place("", "")
