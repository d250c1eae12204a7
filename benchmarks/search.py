"""Let TVM's meta-schedule search arrangements of loops on this CPU, and keep the fastest as a trace.

`PYTHONPATH=src python benchmarks/search.py mhc_post --trials 64` runs it with a Python that has TVM. Candidates are
compiled and timed in this process, so that nothing is needed beside TVM; no model of costs chooses among them, which
would need XGBoost.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

os.environ.setdefault("TVM_NUM_THREADS", str(torch.get_num_threads()))
os.environ.setdefault("TVM_BIND_THREADS", "0")

import tvm
from tvm.ir.utils import derived_object
from tvm.runtime import Executable
from tvm.s_tir import meta_schedule
from tvm.s_tir.meta_schedule.builder import BuilderInput, BuilderResult, PyBuilder
from tvm.s_tir.meta_schedule.runner import PyRunner, PyRunnerFuture, RunnerInput, RunnerResult
from tvm.target import Target

from mhc.backends.tvm.searched import KERNELS
from mhc.backends.tvm.searched.traces import path_of
from mhc.ops.mhc_post import MhcPostSpec
from mhc.ops.mhc_pre import MhcPreSpec

STREAMS = 4
built: dict[str, Executable] = {}  # the candidates that wait for their timing


def spec_of(name: str, hidden: int) -> Any:
    """Return the specialisation that is searched for."""
    if name == "mhc_post":
        return MhcPostSpec(STREAMS, hidden, torch.float32)
    return MhcPreSpec(STREAMS, hidden, torch.float32, gamma=True)


@derived_object
class Builder(PyBuilder):
    """Compile in this process."""

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """Return the number of each candidate, or its error."""
        return [self._build(each) for each in build_inputs]

    def _build(self, candidate: BuilderInput) -> BuilderResult:
        try:
            executable = tvm.compile(candidate.mod, candidate.target)
        except Exception as error:
            return BuilderResult(None, str(error))
        number = str(len(built))
        built[number] = executable
        return BuilderResult(number, None)


@derived_object
class Timed(PyRunnerFuture):
    """A timing that is done."""

    def __init__(self, result: RunnerResult) -> None:
        super().__init__()
        self._result = result

    def done(self) -> bool:
        """Return whether there is a result."""
        return True

    def result(self) -> RunnerResult:
        """Return the timing."""
        return self._result


@derived_object
class Runner(PyRunner):
    """Time in this process; the least time counts, as other work on the machine only adds to it."""

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[Timed]:
        """Return the seconds of each candidate."""
        return [Timed(RunnerResult([self._time(each)], None)) for each in runner_inputs]

    def _time(self, candidate: RunnerInput) -> float:
        executable = built[candidate.artifact_path]
        tensors = [
            tvm.runtime.from_dlpack(torch.randn(*map(int, each.shape)).to(getattr(torch, str(each.dtype))))
            for each in candidate.args_info
        ]
        timer = executable.mod.time_evaluator("main", tvm.cpu(), number=1, repeat=5)
        return float(min(timer(*tensors).results))


def search(script: tvm.tirx.PrimFunc, target: Target, trials: int, seed: int) -> tuple[float, dict[str, Any]]:
    """Search, and return the seconds of the fastest candidate, and its trace."""
    with tempfile.TemporaryDirectory() as folder:
        meta_schedule.tune_tir(
            script.with_attr("global_symbol", "main"),
            target,
            folder,
            trials,
            num_trials_per_iter=min(trials, 16),
            builder=Builder(),
            runner=Runner(),
            cost_model="random",
            measure_callbacks=[meta_schedule.measure_callback.AddToDatabase()],
            strategy="replay-trace",
            num_tuning_cores=1,
            seed=seed,
        )
        lines = Path(folder, "database_tuning_record.json").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line)[1] for line in lines]
    trace, seconds, *_ = min(records, key=lambda record: min(record[1]))
    return min(seconds), {"tried": len(records), "trace": trace}


def main() -> None:
    """Search for one operator, and write its trace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("op", choices=[op for op, _ in KERNELS])
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=2560)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mcpu", default="x86-64-v3")
    options = parser.parse_args()
    logging.disable(logging.INFO)
    target = Target({"kind": "llvm", "mcpu": options.mcpu, "num-cores": torch.get_num_threads()})
    where = {"tokens": options.tokens, "streams": STREAMS, "hidden": options.hidden, "mcpu": options.mcpu}
    script = KERNELS[options.op, "forward"].script(spec_of(options.op, options.hidden), options.tokens)
    seconds, found = search(script, target, options.trials, options.seed)
    path = path_of(options.op)
    path.write_text(json.dumps({**where, "tvm": tvm.__version__, **found}) + "\n", encoding="utf-8")
    sys.stdout.write(f"{options.op}: {seconds * 1e3:.3g} ms, the fastest of {found['tried']}: {path}\n")


if __name__ == "__main__":
    main()
