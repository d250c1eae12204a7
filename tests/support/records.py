"""Records that tests of several rooms judge, write and read."""

from __future__ import annotations

import numpy as np

from kernel_matrix.job.sample import take
from kernel_matrix.store import samples
from kernel_matrix.store.record import Record

TRITON = "cuda/sm_90/triton-3.7/mhc_pre.forward"

JOB = {
    "job": "here.good",
    "platform": "here",
    "toolchain": "good",
    "device": "x",
    "commit": "abc",
    "started": "2026-11-22T11:52:42Z",
    "seconds": "105.6",
    "lock.sha256": "00ff",
    "version.numpy": "2.4.6",
}

CELL = "here/any/good/double.forward"

GOOD = Record(
    f"{CELL}/tokens1-fp32",
    "pass",
    "run",
    seconds=1.25,
    metrics={"elements": 8.0, "time.run": 0.5, "out.elements": 8.0, "out.max_abs": 1e-7, "out.unusual": 3.0},
    facts={"inputs.sha256": "00ff" * 4, "process": "own"},
    job=JOB,
)

BAD = Record(f"{CELL}/tokens2-fp32", "error", "run", "launch", "<b>no</b>", "a\nb", 2.0, ("fail", "error"), job=JOB)


def case_of(planned, cell, dtype="fp32"):
    return next(case for case in planned.cases if case.cell.id == cell and case.axes["dtype"] == dtype)


def compiled(case, kind="cubin"):
    return Record(case.id, "pass", "compile", metrics={"artifact.bytes": 9.0}, facts={"artifact.kind": kind})


def all_cases(planned, passing):
    return [passing(case) for case in planned.cases]


def record_with_sample(case: str = "here/any/good/double.forward/tokens1", **fields) -> Record:
    key = case.split("/", 3)[-1]
    rng = np.random.default_rng(len(case))
    outputs = {"out": rng.normal(size=(40, 50)).astype(np.float32), "r": rng.normal(size=7).astype(np.float16)}
    entry = {name: take(key, name, array) for name, array in outputs.items()}
    given = {
        "outcome": "pass",
        "action": "run",
        "facts": {"inputs.sha256": "00ff" * 4},
        "job": {"job": "here.good", "device": "x"},
    }
    metrics = {"elements": 2007.0, "out.elements": 2000.0, "r.elements": 7.0}
    return Record(case, samples=samples.of_entry(entry), metrics=metrics, **{**given, **fields})


def states(comparison):
    return [verdict.state for cell in comparison.cells for verdict in cell.cases]


def middle(comparison):
    """Return the verdict of the case with two tokens, which is the one that fails."""
    [cell] = comparison.cells
    return next(verdict for verdict in cell.cases if verdict.case.axes["tokens"] == 2)
