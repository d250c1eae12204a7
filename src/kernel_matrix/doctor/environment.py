"""Ask an environment what it has, and run a process in it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix.run.executors import InstallError, Interpreter
from kernel_matrix.run.own_time import wait_for_end
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.registry import programs, vendor_names

# Run in the environment: it prints its Python, every distribution, and the compilers that it finds.
_FACTS = """
import importlib.metadata, json, os, pathlib, platform, shutil, sys
tools = {}
for program in json.loads(sys.argv[1]):
    homes = [os.environ.get(name) for name in program["homes"]] + [program["folder"]]
    folders = [os.path.join(home, "bin") for home in homes if home]
    if program["wheels"]:
        roots = [pathlib.Path(root) for root in sys.path if root]
        folders += [str(folder) for root in roots for folder in sorted(root.glob(program["wheels"]))]
    path = os.pathsep.join([os.environ.get("PATH", ""), *folders])
    tools[program["name"]] = shutil.which(os.environ.get(program["variable"]) or program["name"], path=path) or ""
read = [distribution.metadata for distribution in importlib.metadata.distributions()]  # each use would read it anew
versions = {one["Name"]: one["Version"] for one in read if one["Name"]}
print("facts" + json.dumps({"python": platform.python_version(), "versions": versions, "tools": tools}))
"""


@dataclass(frozen=True)
class Environment:
    """The content of an environment: Python, the version of every distribution, and the paths of its compilers."""

    python: str
    versions: Mapping[str, str]
    tools: Mapping[str, str]

    @property
    def facts(self) -> dict[str, str]:
        """The facts of a job in this environment."""
        return {"python": self.python} | {f"version.{name}": version for name, version in self.versions.items()}

    def has(self, need: str, machine: Machine) -> bool:
        """Return whether this environment, on this machine, has what a probe needs."""
        return machine.has(need) if need in vendor_names() else bool(self.tools.get(need))


def examine(interpreter: Interpreter, scratch: Path) -> Environment:
    """Ask the environment what it has.

    Raises:
        InstallError: its Python does not run.
    """
    described = [
        {key: getattr(program, key) for key in ("name", "variable", "homes", "folder", "wheels")}
        for program in programs()
    ]
    status, output, _ = process(interpreter, ["-c", _FACTS, json.dumps(described)], {}, scratch, seconds=60)
    lines = [line for line in output.splitlines() if line.startswith("facts{")]
    if status or not lines:
        raise InstallError(f"the environment's Python does not run:\n{output}")
    return Environment(**json.loads(lines[-1].removeprefix("facts")))


def process(
    interpreter: Interpreter, arguments: Sequence[str], variables: Mapping[str, str], folder: Path, seconds: float
) -> tuple[int | None, str, float]:
    """Return the exit status (None: the time limit came first), the output and the duration of one process."""
    log = folder / "log.txt"
    log.unlink(missing_ok=True)
    began = time.monotonic()
    status = wait_for_end(interpreter.start(arguments, variables, folder, log), seconds)
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return status, text, time.monotonic() - began
