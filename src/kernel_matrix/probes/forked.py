"""Run several probes of one toolchain in the children of one process, which imports the toolchain once for all.

To import a toolchain takes longer than what most probes ask. A child shares nothing with the others but that import,
and an abort ends only one probe, as in a process of its own.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix.base.syntax import parsed
from kernel_matrix.probes.probe import Probe
from kernel_matrix.run.executors import Interpreter
from kernel_matrix.run.own_time import wait_for_end

_IMPORT_SECONDS = 180


@dataclass(frozen=True)
class Ending:
    """The exit status of a probe's process (None: its time limit came first), its output and its duration."""

    status: int | None
    output: str
    seconds: float


@dataclass(frozen=True)
class Group:
    """Probes that begin with importing the same packages: their numbers in the list of all, and these packages."""

    numbers: tuple[int, ...]
    modules: tuple[str, ...]


def groups(probes: Sequence[Probe]) -> list[Group]:
    """Return the groups of two probes or more. A probe that does anything before its imports is in none."""
    families: dict[str, dict[int, set[str]]] = {}
    for number, probe in enumerate(probes):
        if packages := first_imports(probe.program):
            families.setdefault(probe.family, {})[number] = packages
    shared = {name: set.intersection(*members.values()) for name, members in families.items()}
    return [
        Group(tuple(members), tuple(sorted(shared[name])))
        for name, members in families.items()
        if len(members) > 1 and shared[name]
    ]


def first_imports(program: str) -> set[str]:
    """Return the packages that a program imports before it does anything else, without Python's own."""
    packages: set[str] = set()
    try:
        statements = parsed(program).body
    except SyntaxError:
        return packages
    for statement in statements:
        if isinstance(statement, ast.Import):
            packages |= {alias.name.split(".")[0] for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            packages.add(statement.module.split(".")[0])
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            break
    return packages - sys.stdlib_module_names


def run_group(
    group: Group,
    probes: Sequence[Probe],
    folders: Mapping[int, Path],
    variables: Mapping[int, Mapping[str, str]],
    interpreter: Interpreter,
    scratch: Path,
) -> dict[int, Ending]:
    """Run those probes of the group that have a folder; return how each ended, by its number.

    A probe is absent from what is returned if its packages do not import, or if the common process died.
    """
    numbers = [number for number in group.numbers if number in folders]
    if len(numbers) < 2:
        return {}
    log, plan = scratch / f"group-{numbers[0]}.txt", scratch / f"group-{numbers[0]}.json"
    described = [
        {
            "program": str(probes[number].path.resolve()),
            "folder": str(folders[number]),
            "variables": variables[number],
            "seconds": probes[number].seconds,
            "log": str(folders[number] / "log.txt"),
            "end": str(folders[number] / "end.json"),
        }
        for number in numbers
    ]
    plan.write_text(json.dumps({"modules": group.modules, "log": str(log), "probes": described}))
    limit = _IMPORT_SECONDS + sum(probes[number].seconds for number in numbers)
    program = Path(__file__).with_name("fork_probes.py").read_text(encoding="utf-8")
    wait_for_end(interpreter.start(["-c", program, str(plan)], variables[numbers[0]], scratch, log), limit)
    return {number: ending for number in numbers if (ending := _ending(folders[number])) is not None}


def _ending(folder: Path) -> Ending | None:
    """Return how the probe of a folder ended; None if it did not come to its end."""
    try:
        end = json.loads((folder / "end.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    output = (folder / "log.txt").read_text(encoding="utf-8", errors="replace")
    return Ending(end["status"], output, end["seconds"])
