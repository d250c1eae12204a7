"""Run probes in an environment, each in a process of its own, so that an abort ends only one."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from kernel_matrix.base.paths import without_folders
from kernel_matrix.doctor.environment import Environment, examine, process
from kernel_matrix.probes.expected import record_id
from kernel_matrix.probes.forked import Ending, Group, groups, run_group
from kernel_matrix.probes.probe import Probe
from kernel_matrix.run.executors import Interpreter
from kernel_matrix.run.supervise import death
from kernel_matrix.store.record import Record
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.registry import programs

_OUTPUT = 12_000  # characters of a program's output that its record keeps


def run_probes(
    probes: Sequence[Probe],
    toolchain: str,
    interpreter: Interpreter,
    machine: Machine,
    variables: Mapping[str, str],
    workers: int = 1,
    bytecode: Path | None = None,
) -> list[Record]:
    """Run those probes that make sense in this environment; ``variables`` may name a folder as ``{cache}``.

    ``bytecode`` is the folder of what Python compiles of the toolchain; without one the probes share a new one.
    """
    with tempfile.TemporaryDirectory(prefix="probes-") as name:
        scratch = Path(name)
        environment = examine(interpreter, scratch)
        chosen = [probe for probe in probes if probe.makes_sense_with(environment.versions)]

        # What importing the toolchain compiles serves all of its processes.
        compiled = {"PYTHONPYCACHEPREFIX": str(bytecode or scratch / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}

        records = [Record(record_id(toolchain, probe), "unavailable", job=environment.facts) for probe in chosen]
        absent = [next((need for need in probe.needs if not environment.has(need, machine)), "") for probe in chosen]
        folders = {number: scratch / str(number) for number, need in enumerate(absent) if not need}
        of_probe = {n: {**_variables(environment, variables, folder), **compiled} for n, folder in folders.items()}
        for folder in folders.values():
            folder.mkdir()

        with ThreadPoolExecutor(workers) as pool:
            endings = _run(chosen, folders, of_probe, interpreter, scratch, pool)
        return [
            _record(probe, record, endings[number], folders[number])
            if number in endings
            else replace(record, message=f"the probe needs {absent[number]}, which is not here")
            for number, (probe, record) in enumerate(zip(chosen, records, strict=True))
        ]


def _run(
    probes: Sequence[Probe],
    folders: Mapping[int, Path],
    variables: Mapping[int, Mapping[str, str]],
    interpreter: Interpreter,
    scratch: Path,
    pool: ThreadPoolExecutor,
) -> dict[int, Ending]:
    """Run the probes that have a folder, the probes of a group together; return how each ended, by its number."""

    def run_together(group: Group) -> dict[int, Ending]:
        return run_group(group, probes, folders, variables, interpreter, scratch)

    def run_one(number: int) -> Ending:
        probe = probes[number]
        program = str(probe.path.resolve())
        return Ending(*process(interpreter, [program], variables[number], folders[number], probe.seconds))

    endings = {number: ending for part in pool.map(run_together, groups(probes)) for number, ending in part.items()}
    rest = [number for number in folders if number not in endings]
    return endings | dict(zip(rest, pool.map(run_one, rest), strict=True))


def _variables(environment: Environment, variables: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the environment variables of a probe's process."""
    of_package = {name: value.replace("{cache}", str(folder / "cache")) for name, value in variables.items()}
    return {**of_package, "PYTHONFAULTHANDLER": "1", "NO_COLOR": "1", **_paths_of(environment.tools)}


def _record(probe: Probe, record: Record, ending: Ending, folder: Path) -> Record:
    """Return the record of a probe that ran."""
    status, names = ending.status, {str(probe.path.resolve()): f"probes/{probe.id}.py", str(folder): "scratch"}
    detail = without_folders(ending.output, names, packages=True)
    record = replace(record, action="run", seconds=ending.seconds, detail=_shortened(detail))
    if status == 0:
        return replace(record, outcome="pass")
    if status is None:
        return replace(record, outcome="error", stage="timeout", message=f"no end after {probe.seconds:g} s")
    if status == 1 and (message := last_exception(detail)):
        return replace(record, outcome="error", stage="launch", message=_shortened(message))
    return replace(record, outcome="error", stage="crash", message=death(status, "launch"))


def _paths_of(tools: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which a probe finds the programs that only its environment has, such as a wheel's."""
    search = [os.environ.get("PATH", "")]
    homes: dict[str, str] = {}
    for program in programs():
        path = tools.get(program.name)
        if path and not shutil.which(program.command):
            search.append(str(Path(path).parent))
            homes |= {name: str(Path(path).parent.parent) for name in program.homes[:1]}
    return {"PATH": os.pathsep.join(search), **homes} if len(search) > 1 else {}


def _shortened(text: str) -> str:
    """Return the text, or the beginning and the end of one that is too long to travel."""
    if len(text) <= _OUTPUT:
        return text
    return f"{text[: _OUTPUT // 4]}\n[...]\n{text[-_OUTPUT * 3 // 4 :]}"


def last_exception(output: str) -> str:
    """Return the exception that ended a Python program, as Python printed it, without its traceback."""
    lines = output.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    if not starts:
        return ""
    after = (number for number in range(starts[-1] + 1, len(lines)) if re.match(r"[\w.]+(:|$)", lines[number]))
    return "\n".join(lines[next(after, len(lines)) :]).strip()
