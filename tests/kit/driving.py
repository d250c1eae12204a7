"""Run cases of a package in the two processes of a job, without the harness around them."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
ACCURACY = {"factor": 4.0, "rounded": 1.5, "ulps": 4.0, "caps": {"forward": 0.1, "backward": 0.1}, "budgets": []}


class Job(NamedTuple):
    """The ends of the cases by their ids, what pytest printed, and the CPU-seconds."""

    ends: dict[str, dict[str, Any]]
    output: str
    seconds: float

    def red(self) -> dict[str, str]:
        """Return the messages of the cases that are not green."""
        return {case: str(end.get("message")) for case, end in self.ends.items() if end["outcome"] != "pass"}


def run(
    folder: Path,
    suite: Path,
    kernel: str,
    cases: Sequence[tuple[str, str, Mapping[str, Any]]],
    source: Path | str,
    *,
    python: str = sys.executable,
    accuracy: Mapping[str, Any] = ACCURACY,
    **case: Any,
) -> Job:
    """Run the cases (operator, direction, axes) of a suite with one kernel."""
    listed = [
        {
            "id": f"{op}.{direction}/" + ",".join(f"{name}={value}" for name, value in axes.items()),
            "name": ",".join(f"{name}={value}" for name, value in axes.items()),
            "op": op,
            "direction": direction,
            "target": "x86-64",
            "axes": dict(axes),
            "action": "run",
            "canary": True,
            "sums": [],
            **case,
        }
        for op, direction, axes in cases
    ]
    job = {"job": "here", "backend": "one", "kernel": kernel, "device": "cpu", "accuracy": accuracy, "cases": listed}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "todo.json").write_text(json.dumps(job))
    (folder / "pytest.ini").write_text("[pytest]\n")
    variables = {
        "OMP_WAIT_POLICY": "passive",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "2",
        "JAX_PLATFORMS": "cpu",
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [
            python,
            str(ROOT / "src" / "kernel_matrix" / "job" / "start.py"),
            *("-p", "kernel_matrix.job.plugin", "-p", "no:cacheprovider", "-q", "--tb=short", "-rN"),
            *("--rootdir", str(suite), "-c", str(folder / "pytest.ini")),
            *("--job", str(folder / "todo.json"), "--journal", str(folder / "journal.jsonl"), str(suite)),
        ],
        env={**os.environ, "PYTHONPATH": str(source), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **variables},
        input="",
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = (folder / "journal.jsonl").read_text().splitlines() if (folder / "journal.jsonl").exists() else []
    ends = {entry["case"]: entry for entry in map(json.loads, lines) if entry["entry"] == "end"}
    return Job(ends, done.stdout + done.stderr, seconds)
