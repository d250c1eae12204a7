"""Measure how long a folder of results takes to be collected, judged and summed up, and how much memory that takes."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kernel_matrix.base.collection import many_objects_that_stay
from kernel_matrix.base.errors import UserError

ROADS = ("junit", "tables")  # the forms of results that a report is made from


def measure(folder: Path, roads: Sequence[str]) -> Iterator[str]:
    """Yield one line for each road. Each one is measured in a process of its own.

    Raises:
        UserError: there is no such road, or it failed.
    """
    if unknown := set(roads) - {*ROADS}:
        raise UserError(f"--measure {' '.join(sorted(unknown))}: the roads are {', '.join(ROADS)}.")
    for road in roads:
        command = [sys.executable, __file__, road, str(folder)]
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=variables)
        if done.returncode:
            raise UserError(f"{road}: it ended with status {done.returncode}")
        figures = json.loads(done.stdout)
        steps = ", ".join(f"{name} {seconds:.1f}" for name, seconds in figures["steps"].items())
        yield (
            f"{road}: {figures['cases']} cases in {figures['wall']:.1f} s, {figures['cpu']:.1f} CPU-seconds, "
            f"{figures['memory'] / 2**20:.0f} MiB at most in its main process ({steps})"
        )


class _Steps:
    """The wall time of each step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def end(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name], self._last = now - self._last, now


def report(folder: Path, results: Path, steps: _Steps) -> int:
    """Make the report, as the command does, and return the number of planned cases."""
    from kernel_matrix import judging, pipeline
    from kernel_matrix.matrix.dashboard import write_dashboard

    project = pipeline.load(folder / "matrix.yaml", folder / "build")
    steps.end("load")
    planned = pipeline.plan(project, "quick")
    steps.end("plan")
    with many_objects_that_stay(), judging.judged(project, planned, [results]) as judged:
        steps.end("collect and judge")
        document = write_dashboard(project, judged).document
        steps.end("page")
    return document.run.cases


def main(road: str, folder: Path) -> dict[str, Any]:
    """Take a road, and return its figures."""
    begin, steps = time.perf_counter(), _Steps()
    cases = report(folder, folder / ("tables" if road == "tables" else "results"), steps)
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    wall = time.perf_counter() - begin
    # Not that of the children: Linux counts what their parent had when it started them.
    return {"cases": cases, "wall": wall, "cpu": cpu, "memory": own.ru_maxrss * 1024, "steps": steps.seconds}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
