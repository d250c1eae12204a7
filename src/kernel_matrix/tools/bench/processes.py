"""The processes of the benchmark: one for each environment, and what they have written."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_matrix.base.waiting import wait_until
from kernel_matrix.job import own_files
from kernel_matrix.pipeline import Project
from kernel_matrix.run.executors import Interpreter
from kernel_matrix.run.harness import copy_with
from kernel_matrix.run.supervise import death
from kernel_matrix.tools.bench.bench_plan import BenchCase, Place, bench_of, rivals_of

# Started as a module: as a script, its folder would be the first on the import path.
_PROGRAM = ("-m", "kernel_matrix.tools.bench.inside.program")
# From the shell: the number of threads, which the results say, and the folder of rivals for the package's adapter.
_SHELL = ("OMP_NUM_THREADS", "BENCH_PEERS")


@dataclass(frozen=True)
class Asked:
    """The orders of a process: cases at a place, rivals, and whether the kernels are only compiled."""

    place: Place
    toolchains: tuple[str, ...]
    cases: tuple[BenchCase, ...]
    rivals: tuple[str, ...]
    skip: frozenset[tuple[str, str]] = frozenset()  # cases with contenders that ended a process before
    quick: bool = False
    only_compile: bool = False


@dataclass(frozen=True)
class Said:
    """The answers of a process: of the device, of each case, and of first calls; and how it ended."""

    device: Mapping[str, Any]
    cases: Mapping[str, Mapping[str, Any]]
    first_calls: Mapping[str, Mapping[str, float]]
    during: str  # the case that ran when it ended; empty if all had ended
    contender: str  # and the contender; empty if it was not one alone
    status: int | None
    output: str
    is_over: bool = False  # it was ended because the time of the whole benchmark was over

    @property
    def end(self) -> tuple[str, str]:
        """The stage and the message of a case without an answer."""
        if self.status is None:
            return "timeout", "the benchmark's process did not end in time"
        last = self.output.strip().splitlines()
        return "crash" if self.status != 1 else "launch", (
            last[-1] if self.status == 1 and last else death(self.status, "launch")
        )


_STOPPED = object()


def _never() -> bool:
    return False


def ask(
    project: Project,
    asked: Asked,
    interpreter: Interpreter,
    name: str,
    seconds: float,
    is_over: Callable[[], bool] = _never,
) -> Said:
    """Start a process for what is asked, wait for its end, and return what it has said.

    It is ended after so many seconds, and as soon as ``is_over`` says so.
    """
    folder = project.build / "bench" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    harness = copy_with("bench", project.build / "bench" / "harness")
    task, results, log = folder / "task.json", folder / "results.jsonl", folder / "log.txt"
    task.write_text(json.dumps(_task(project, asked, interpreter), indent=1), encoding="utf-8")
    seen = interpreter.seen
    arguments = [*_PROGRAM, seen(task), seen(results)]
    child = interpreter.start(arguments, _environment(project, asked, interpreter, harness), folder, log)
    try:
        answer = wait_until(lambda: _STOPPED if is_over() else child.poll(), seconds)
        status = answer if isinstance(answer, int) else None
    finally:
        child.kill()
    text = own_files.text_of(log)
    return _said(results, status, text[-12_000:])


def _task(project: Project, asked: Asked, interpreter: Interpreter) -> dict[str, Any]:
    matrix, bench = project.matrix, bench_of(project.matrix)
    accuracy = matrix.accuracy
    amount = bench.samples.model_dump()
    if asked.quick:
        amount |= {"least": 5, "most": 10, "seconds": 0.02}
    caps = {direction: cap.limit for direction, cap in accuracy.caps.items()}
    budgets = accuracy.limits().get("budgets", [])
    return {
        "adapter": interpreter.seen(project.root / bench.adapter),
        "device": asked.place.framework_device,
        "toolchains": {name: matrix.toolchains[name].backend for name in asked.toolchains},
        "only_compile": asked.only_compile,
        "samples": amount,
        "rules": {
            "factor": accuracy.factor.limit,
            "rounded": accuracy.rounded.limit,
            "ulps": accuracy.ulps.limit,
            "rival": bench.rival_error.limit,
        },
        "cases": [
            {
                "id": case.id,
                "op": case.op,
                "direction": case.direction,
                "axes": dict(case.axes),
                "toolchains": [name for name in case.toolchains if name in asked.toolchains],
                "rivals": rivals_of(bench, case, asked.rivals),
                "skip": [name for identity, name in sorted(asked.skip) if identity == case.id],
                "cap": caps.get(case.direction, max(caps.values())),
                "budgets": [
                    own for own in budgets if own["op"] == case.op and own["direction"] in (None, case.direction)
                ],
            }
            for case in asked.cases
        ],
    }


def _environment(project: Project, asked: Asked, interpreter: Interpreter, harness: Path) -> dict[str, str]:
    """Return the variables of the process: import path, compilers' caches, and what matrix.yaml sets."""
    package, seen = project.matrix.package, interpreter.seen
    cache = seen(project.build / "cache")
    entries = project.matrix.platforms[asked.place.platform].by_toolchain
    own = [entries[toolchain].environment for toolchain in asked.toolchains]
    return {
        "PYTHONPATH": f"{seen(harness)}:{seen(project.root / package.source)}",
        "PYTHONPYCACHEPREFIX": f"{cache}/bytecode",
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONFAULTHANDLER": "1",
        **{name: os.environ[name] for name in _SHELL if name in os.environ},
        **{name: value.replace("{cache}", cache) for name, value in package.environment.items()},
        **{name: value for variables in own for name, value in variables.items()},
    }


def _said(results: Path, status: int | None, output: str) -> Said:
    device: Mapping[str, Any] = {}
    cases: dict[str, Mapping[str, Any]] = {}
    first_calls: dict[str, dict[str, float]] = {}
    during = contender = ""
    for entry in _entries(results):
        if "bandwidth" in entry:
            device = entry
        elif "begin" in entry:
            during, contender = entry["begin"], ""
        elif "compiled" in entry:
            first_calls.setdefault(entry["compiled"], {})[entry["contender"]] = entry["seconds"]
        elif "case" in entry:
            cases[entry["case"]], during = entry, ""
        elif "contender" in entry:
            contender = entry["contender"]
    return Said(device, cases, first_calls, during, contender, status, output)


def _entries(results: Path) -> Iterator[dict[str, Any]]:
    """Yield the entries of a file; a last line that was cut short says nothing."""
    for line in results.read_text(encoding="utf-8").splitlines() if results.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:
            return
