"""Take the results that another tool has written (JUnit XML) as those of a lane: each of its tests is a case.

The results are of now, of this checkout and of this machine: whoever takes them says so. They hold no numbers, so a
test that passed is ``held``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.base.git import commit
from kernel_matrix.config import suite
from kernel_matrix.config.model import ASSERTED
from kernel_matrix.config.plan import Job, plan
from kernel_matrix.job.test_names import COLLECTED, SUITE, Key, case_of, numbered, op_named
from kernel_matrix.pipeline import Project
from kernel_matrix.run.decide import Decision, decide
from kernel_matrix.run.executors import Request
from kernel_matrix.run.job_run import facts_of
from kernel_matrix.store import junit, write
from kernel_matrix.store.junit import BrokenResultError
from kernel_matrix.store.record import Record
from kernel_matrix.store.validation import RefusedError
from kernel_matrix.vendors.machine import Machine


def take(project: Project, files: Sequence[Path], platform: str, toolchain: str, machine: Machine) -> Path:
    """Write the results of the files as those of a job, with the list of its tests; return the job's file.

    Raises:
        UserError: the matrix has operators, a name is unknown, this machine has no such device, or a file is not JUnit
            XML of another tool.
    """
    matrix = project.matrix
    if not suite.is_suite(matrix):
        raise UserError("matrix.yaml names operators, whose results another tool cannot give. Take 'ops' out.")
    if platform not in matrix.platforms:
        raise unknown("--platform", "platform", platform, matrix.platforms)
    entries = matrix.platforms[platform].by_toolchain
    if toolchain not in entries:
        raise unknown("--toolchain", "toolchain of the platform", toolchain, entries)
    target, decision = _place(project, platform, toolchain, machine)
    records = [record for file in files for record in _read(file)]
    if not records:
        raise UserError(f"{', '.join(map(str, files))}: there is no test in it.")
    keys = list(numbered(_key(record.case) for record in records))
    lane, job = f"{platform}/{target}/{toolchain}", f"{platform}.{toolchain}"
    taken = [_taken(record, lane, key, decision.action) for record, key in zip(records, keys, strict=True)]
    whole = _id(lane, (SUITE, COLLECTED))
    taken.insert(0, Record(whole, "pass", decision.action, metrics={"tests": float(len(taken))}))
    suite.write(project.results, {**suite.read([project.results]), job: tuple(keys)})
    request = Request(project.root, project.build, matrix, Job(platform, toolchain, ()), decision.device, print)
    facts = {
        "files": " ".join(file.name for file in files),
        "commit": commit(project.root),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    devices = [decision.device] if decision.device else []
    return write.replace(project.results, facts_of(request, "another tool", devices) | facts, taken)


def _place(project: Project, platform: str, toolchain: str, machine: Machine) -> tuple[str, Decision]:
    """Return the first target of the lane that this machine has, and what it does with its cases."""
    reasons = []
    planned = suite.with_tests(project.matrix, {})
    jobs = [job for job in plan(planned, "quick").jobs if (job.platform, job.toolchain) == (platform, toolchain)]
    for case in (case for job in jobs for case in job.cases):
        decision = decide(planned, case, machine)
        if decision.device and decision.action in ("run", "emulate"):
            return case.cell.target, decision
        reasons.append(decision.reason)
    raise UserError(f"{platform}: {'; '.join(dict.fromkeys(reasons))}. Take the results where the tests ran.")


def _read(file: Path) -> list[Record]:
    try:
        records = junit.read(file)
    except (RefusedError, BrokenResultError, OSError) as error:
        raise UserError(f"{file}: {error}") from None
    if any("job" in record.job for record in records):
        raise UserError(
            f"{file}: kernel-matrix has written it. `kernel-matrix report {file.parent}` takes it as it is."
        )
    return records


def _key(test: str) -> Key:
    """Return the operator and the case of a test: its class and its name, or its name alone where both are the same."""
    half = len(test) // 2
    if test[:half] == test[half + 1 :]:
        return op_named(test[:half]), case_of(test[:half])
    group, _, name = test.rpartition("/")
    return op_named(group), case_of(name)


def _id(lane: str, key: Key) -> str:
    return f"{lane}/{key[0]}.{ASSERTED}/{key[1]}"


def _taken(record: Record, lane: str, key: Key, action: str) -> Record:
    """Return a record of another tool as that of a case; nothing ran of a test that was skipped."""
    tried = record.outcome in ("pass", "fail", "error")
    return replace(
        record,
        case=_id(lane, key),
        action=action if tried else "",
        stage="launch" if record.outcome == "error" else "",
        metrics={},
        facts={"test": record.case[:2000]},
        job={},
    )
