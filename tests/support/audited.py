"""A site with the results that it was made from, which end in all ways."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from checkouts import AtCommit
from common import few_cases, figures_of, job_of, output_figures
from judges import write_site

from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Case, plan
from kernel_matrix.results.present import Pins, Present
from kernel_matrix.store import junit
from kernel_matrix.store.load import collect
from kernel_matrix.store.record import Record

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)

HEAD, LOCK = "a" * 12, "1" * 64

TIMES = {"time.run": 1e-3, "time.eager": 2e-3, "time.baseline": 2e-3, "time.ratio": 2.0, "time.rounds": 30.0}


def part_of(matrix: Matrix, *platforms: str) -> Matrix:
    """Return matrix.yaml with one operator and these platforms: each audit plans all that a matrix names."""
    kept = {name: matrix.platforms[name] for name in platforms}
    return matrix.model_copy(update={"ops": {"mhc_pre": matrix.ops["mhc_pre"]}, "platforms": kept})


def facts_of(case: Case) -> dict[str, str]:
    job = {"job": f"{case.cell.platform}.{case.cell.toolchain}", "commit": HEAD, "started": "2026-05-01T11:00:00Z"}
    return {**job_of(case), **job, "device": "AMD EPYC (2 threads)", "lock.sha256": LOCK,
            "version.apache-tvm": "0.27.0"}  # fmt: skip


def record_of(case, number: int) -> Record:
    """Make the record of a case; the cases of a toolchain end in all ways."""
    toolchain, metrics = case.cell.toolchain, figures_of(case)
    if case.exclusion:
        return Record(case.id, "excluded", message=case.exclusion.reason)
    if case.cell.vendor == "amd":
        return Record(case.id, "unavailable", message="no device")
    if case.cell.vendor == "nvidia":
        artifact = {"artifact.bytes": 900.0 + number, "artifact.registers": 30.0 + number}
        return Record(case.id, "pass", "compile", metrics=artifact, facts={"artifact.kind": "cubin"}, seconds=0.5)
    if toolchain == "inductor" and number == 1:
        outside = {**metrics, **{f"h_in.{k}": v for k, v in output_figures(case).items()}, "h_in.max_abs": 0.5}
        return Record(case.id, "fail", "run", message="h_in: max_abs 0.5 is over 1e-06", metrics=outside)
    if toolchain == "inductor" and number == 2:
        return Record(case.id, "error", "run", "launch", "segmentation fault", "line 1\nline 2")
    attempts = ("error:launch",) if toolchain == "tvm-0.27" and number == 1 else ()
    timed = TIMES if case.timed else {}
    # Its job is stale, and what was refused for its inputs is missing: that is never stale.
    inputs = "f" * 64 if toolchain == "triton-3.7" and number == 0 else sha256(case.name.encode()).hexdigest()
    return Record(case.id, "pass", case.cell.action, seconds=1.25, attempts=attempts, metrics={**metrics, **timed},
                  facts={"inputs.sha256": inputs, "comparisons": _compared(number)})  # fmt: skip


def _compared(number: int) -> str:
    faults = {"a row of zeros": [3, 0], "one more rounding, to TF32": [2, number % 2]}
    return json.dumps({"lines": [{"at": f"a.py:{number % 3}", "call": "np.allclose", "faults": faults}]})


@pytest.fixture(scope="module")
def one_op(matrix):
    return part_of(matrix, "cpu-llvm", "cuda", "rocm")


@pytest.fixture(scope="module")
def reported_results(one_op, tmp_path_factory):
    """Return a plan, its result files, and the site that was made from them."""
    folder = tmp_path_factory.mktemp("audited")
    every = plan(one_op, "quick")
    few = {case.id for case in few_cases(every).cases}
    wanted = ("cpu-llvm.reference", "cpu-llvm.inductor", "cpu-llvm.tvm-0.27", "cpu-llvm.tvm-0.27.timed",
              "cpu-llvm.triton-3.7", "cuda.triton-3.7", "rocm.reference")  # fmt: skip
    jobs = [replace(job, cases=tuple(c for c in job.cases if (c.cell.op, c.cell.direction) == ("mhc_pre", "forward")
                                     and (c.id in few or c.exclusion)))
            for job in every.jobs if job.id in wanted]  # fmt: skip
    planned = replace(every, jobs=tuple(jobs))
    for job in jobs:
        if job.id != "cpu-llvm.tvm-0.27.timed":
            numbers: dict[Any, int] = {}
            records = []
            for case in job.cases:
                numbers[case.cell] = number = numbers.get(case.cell, -1) + 1
                records.append(record_of(case, number))
            facts = {**facts_of(job.cases[0]), "version.triton": "3.6.0"}
            facts["started"] = "2099-01-01T00:00:00Z" if job.id == "cpu-llvm.triton-3.7" else facts["started"]
            write(folder, job, records, facts)
        else:
            write(folder, job, [record_of(case, 0) for case in job.cases], facts_of(job.cases[0]))
    collected = collect([folder / "results"])
    pins = {name: Pins(t.lock, LOCK, tuple(t.requires)) for name, t in one_op.toolchains.items()}
    present = Present(NOW, AtCommit(HEAD), pins)
    write_site(one_op, planned, collected.records, folder / "site", present=present, broken=collected.broken)
    return planned, collected.files, folder / "site"


def write(folder: Path, job, records, facts) -> None:
    facts["device.targets"] = " ".join(sorted({case.cell.target for case in job.cases}))
    (folder / "results").mkdir(exist_ok=True)
    junit.write(folder / "results" / f"{job.id}.xml", job.id, records, facts)
