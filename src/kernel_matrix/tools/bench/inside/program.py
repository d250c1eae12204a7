"""The program of the benchmark's process: time the cases of one environment, and append a line for each of them.

    python -m kernel_matrix.tools.bench.inside.program TASK.json RESULTS.jsonl

A line is written when its case has ended, so a crash loses the case that ran. ``{"begin": ID}`` says which that is.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from kernel_matrix.tools.bench.inside.contenders import Rules
from kernel_matrix.tools.bench.inside.measure import Amount, bandwidth, measure
from kernel_matrix.tools.bench.inside.protocol import Adapter

_COPY = 256 << 20  # bytes of the copy that the bandwidth is measured with, and at least so many times the cache:
_COPY_CACHES = 4


def main(task_file: str, results_file: str) -> None:
    """Time what the task names."""
    task = json.loads(Path(task_file).read_text(encoding="utf-8"))
    with Path(results_file).open("a", encoding="utf-8") as results:
        work = Work(task, results)
        if task["only_compile"]:
            work.compile_all()
        else:
            work.time_all()


class Work:
    """The cases of one environment on one device."""

    def __init__(self, task: Mapping[str, Any], results: TextIO) -> None:
        self._task, self._results = task, results
        sys.path.insert(0, task["adapter"])
        module = importlib.import_module("adapter")
        self.adapter: Adapter = module.adapter(task["device"])
        self._amount = Amount(**task["samples"])
        self._own = {name: self.adapter.contender_of(backend) for name, backend in task["toolchains"].items()}

    def time_all(self) -> None:
        """Measure the bandwidth, and then each case."""
        clock = self.adapter.clock
        copy = bandwidth(clock, max(_COPY, _COPY_CACHES * clock.cache_bytes), self._amount)
        facts = {"method": clock.method, **self.adapter.facts()}
        self._write(bandwidth=copy, facts=facts, disturbance=clock.disturbance(), cache_bytes=clock.cache_bytes)
        for case in self._task["cases"]:
            self._write(begin=case["id"])
            self._write(case=case["id"], **self._timed(case))

    def _timed(self, case: Mapping[str, Any]) -> dict[str, Any]:
        clock, began = self.adapter.clock, time.perf_counter()
        clock.disturbance()
        subject = self.adapter.subject(case["op"], case["direction"], case["axes"])
        own = [self._own[toolchain] for toolchain in case["toolchains"]]
        names = [name for name in dict.fromkeys([*case["rivals"], *own]) if name not in case["skip"]]
        rules = Rules(**self._task["rules"], cap=case["cap"], budgets=case["budgets"])
        results = measure(subject, names, own, clock, rules, self._amount, lambda name: self._write(contender=name))
        answer = {
            "results": {name: asdict(result) for name, result in results.items()},
            "own": {toolchain: self._own[toolchain] for toolchain in case["toolchains"]},
            "traffic": subject.traffic,
            "x_bytes": subject.x_bytes,
            "disturbance": clock.disturbance(),
            "state": dict(clock.state()),
            "seconds": time.perf_counter() - began,
        }
        del subject
        clock.release()
        return answer

    def compile_all(self) -> None:
        """Run each contender of each case once, so that the compilers' caches have what the timing needs."""
        for case in self._task["cases"]:
            subject = self.adapter.subject(case["op"], case["direction"], case["axes"])
            own = [self._own[toolchain] for toolchain in case["toolchains"]]
            for name in dict.fromkeys(
                [*case["rivals"][1:], *own]
            ):  # the first is the baseline, which needs no compiler
                began = time.perf_counter()
                with contextlib.suppress(Exception):  # what does not run, the timing tells
                    subject.contender(name).runs(1)[0]()
                    self._write(compiled=case["id"], contender=name, seconds=time.perf_counter() - began)
            del subject
            self.adapter.clock.release()

    def _write(self, **entry: Any) -> None:
        self._results.write(json.dumps(entry, default=str) + "\n")
        self._results.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
