"""What a process of a job is started with: its cases, command and environment, by the paths that the job sees."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import kernel_matrix
from kernel_matrix.base.paths import without_folders
from kernel_matrix.config.plan import Case, platform_toolchain
from kernel_matrix.run.executors import Interpreter, Request

HARNESS = Path(kernel_matrix.__file__).parent.parent  # the folder from which a job imports the plugin


def specification(
    request: Request, actions: Mapping[str, str], cases: Iterable[Case], attempts: Mapping[str, int] | None = None
) -> str:
    """The cases, what to do with each, and all that the plugin needs to know of the job (JSON)."""
    lane = platform_toolchain(request.matrix, request.job.platform, request.job.toolchain)
    return json.dumps(
        {
            "job": request.job.id,
            "backend": request.toolchain.backend,
            "device": request.vendor.framework_device,
            "interpreted": lane.emulated,
            "accuracy": request.matrix.accuracy.model_dump(),
            "environment": lane.environment,
            "cases": [
                {
                    "id": case.id,
                    "name": case.name,
                    "op": case.cell.op,
                    "direction": case.cell.direction,
                    "target": case.cell.target,
                    "axes": dict(case.axes),
                    "action": actions[case.id],
                    "timed": case.timed,
                    "attempt": (attempts or {}).get(case.id, 1),
                }
                for case in cases
            ],
        },
        indent=1,
    )


def arguments(request: Request, interpreter: Interpreter, todo: Path, journal: Path) -> list[str]:
    """Python's arguments for pytest on the cases of ``todo``, untouched by any configuration around the suite."""
    ini = request.folder / "pytest.ini"
    ini.write_text("[pytest]\n")
    seen, suite = interpreter.seen, request.root / request.matrix.package.suite
    return [
        *("-m", "pytest", "-p", "kernel_matrix.job.plugin", "-p", "no:cacheprovider", "-W", "default"),
        *("-q", "--no-header", "--color=no", "--tb=short", "-rN"),
        *("--rootdir", seen(suite), "-c", seen(ini)),
        *("--job", seen(todo), "--journal", seen(journal), seen(suite)),
    ]


def environment(request: Request, interpreter: Interpreter) -> Mapping[str, str]:
    """The import path, the compilers' caches, and what the platform sets for the toolchain."""
    package = request.matrix.package
    sources = dict.fromkeys(interpreter.seen(folder) for folder in (request.root / package.source, HARNESS))
    cache = interpreter.seen(request.build / "cache")
    return {
        "PYTHONPATH": ":".join(sources),
        # A job has many processes, and importing a toolchain is most of a small one's time.
        "PYTHONPYCACHEPREFIX": f"{cache}/bytecode",
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONFAULTHANDLER": "1",
        **{name: value.replace("{cache}", cache) for name, value in package.environment.items()},
        **platform_toolchain(request.matrix, request.job.platform, request.job.toolchain).environment,
    }


def portable(request: Request, interpreter: Interpreter, text: str) -> str:
    """Paths as they are below the repository: results travel, and nobody else has this machine's folders."""
    seen, job, build, root = interpreter.seen, request.folder, request.build, request.root
    inside = {seen(job): f"build/jobs/{request.job.id}", seen(build / "cache"): "build/cache", seen(root): "."}
    return without_folders(text, {str(build): "build", str(root): ".", **inside})
