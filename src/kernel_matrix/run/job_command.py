"""The cases, the command and the environment of a job's process, with the paths that the job sees."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kernel_matrix.base.paths import without_folders
from kernel_matrix.config.canary_cases import canary_cases
from kernel_matrix.config.plan import Case
from kernel_matrix.config.suite import is_suite
from kernel_matrix.job.suite_canaries import OPTION as CANARIES
from kernel_matrix.run import suite_command
from kernel_matrix.run.executors import Interpreter, Request
from kernel_matrix.run.harness import NO_CONFIGURATION, START, copy_folder, copy_for_jobs

_COMPARED = ("run", "emulate")  # the actions whose results are compared
# Threads that wait keep their core busy by default, in OpenMP as in NumPy's OpenBLAS. In a job that shares
# the machine they would take the cores of the other jobs: a small job spent most of its time so. NumPy only adds up
# errors there, for which one thread is enough. The kernel's process of a timed job measures in quiet and does not get
# these.
BESIDE_OTHERS = {
    "OMP_WAIT_POLICY": "passive",
    "OPENBLAS_NUM_THREADS": "1",
    # By default glibc gives every large tensor back to the system at once, and the system clears its pages anew for the
    # next one: a third of the time of a job that only adds up errors.
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(512 << 20),
    "MALLOC_TOP_PAD_": str(32 << 20),
}


def specification(
    request: Request,
    actions: Mapping[str, str],
    cases: Iterable[Case],
    attempts: Mapping[str, int] | None = None,
    known: Mapping[str, str] | None = None,
) -> str:
    """Return the cases, what to do with each, and all that the plugin needs to know of the job (JSON).

    ``known`` are facts of the job: a run goes on with the journal of another one only where they are the same.
    """
    entry = request.platform.by_toolchain[request.job.toolchain]
    of_matrix = {*request.matrix.package.environment, *entry.environment}
    canaries = canary_cases([case for case in request.job.cases if actions.get(case.id) in _COMPARED])
    return json.dumps(
        {
            "job": request.job.id,
            "known": dict(known or {}),
            "backend": request.toolchain.backend,
            "kernel": request.toolchain.kernel,
            "backend_module": request.matrix.package.module_of(request.toolchain.backend),
            "device": request.vendor.framework_device,
            "interpreted": entry.emulated,
            "accuracy": request.matrix.accuracy.limits(),
            "environment": entry.environment,
            "asks_for_quiet": request.job.timed,
            "tests": request.tests,
            "kernel_without": sorted(BESIDE_OTHERS.keys() - of_matrix) if request.job.timed else [],
            "cases": [
                _case(case, actions[case.id], (attempts or {}).get(case.id, 1))
                | {"canary": case.id in canaries, "sums": request.matrix.ops[case.cell.op].sums}
                for case in cases
            ],
        },
        indent=1,
    )


def _case(case: Case, action: str, attempt: int) -> dict[str, Any]:
    """Return what the plugin needs to know of one case."""
    return {
        "id": case.id,
        "name": case.name,
        "op": case.cell.op,
        "direction": case.cell.direction,
        "target": case.cell.target,
        "axes": dict(case.axes),
        "action": action,
        "timed": case.timed,
        "attempt": attempt,
    }


def arguments(request: Request, interpreter: Interpreter, todo: Path, journal: Path) -> list[str]:
    """Return Python's arguments for pytest on the cases of ``todo``, without any configuration around the suite.

    A suite that knows nothing of the harness keeps its configuration.
    """
    if is_suite(request.matrix):
        options = ("--kernel-matrix-job", interpreter.seen(todo), "--kernel-matrix-journal", interpreter.seen(journal))
        canaries = (CANARIES,) if request.canaries else ()
        return suite_command.arguments(request, interpreter, (*canaries, *options))
    seen, suite = interpreter.seen, request.root / request.matrix.package.suite
    harness = copy_for_jobs(request.build)
    return [
        seen(harness / START),
        *("-p", "kernel_matrix.job.plugin", "-p", "no:cacheprovider", "-W", "default"),
        *("-q", "--no-header", "--color=no", "--tb=short", "-rN"),
        *("--rootdir", seen(suite), "-c", seen(harness / NO_CONFIGURATION)),
        *("--job", seen(todo), "--journal", seen(journal), seen(suite)),
    ]


def environment(request: Request, interpreter: Interpreter) -> Mapping[str, str]:
    """Return the environment variables of a job: import path, compilers' caches, and what the matrix sets."""
    package = request.matrix.package
    cache = interpreter.seen(request.build / "cache")
    return {
        "PYTHONPATH": interpreter.seen(request.root / package.source),
        # A job has many processes, and importing a toolchain is most of a small one's time.
        "PYTHONPYCACHEPREFIX": f"{cache}/bytecode",
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONFAULTHANDLER": "1",
        **BESIDE_OTHERS,
        **{name: value.replace("{cache}", cache) for name, value in package.environment.items()},
        **request.platform.by_toolchain[request.job.toolchain].environment,
    }


def portable(request: Request, interpreter: Interpreter, text: str) -> str:
    """Return the text with all paths as they are below the repository, on this machine's side and on the job's."""
    seen, build, root = interpreter.seen, request.build, request.root
    names = {
        str(build): "build",
        str(root): ".",
        seen(request.folder): f"build/jobs/{request.job.id}",
        seen(build / "cache"): "build/cache",
        seen(root): ".",
        seen(copy_folder(build)): "harness",
    }
    return without_folders(text, names)
