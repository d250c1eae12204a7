"""Take the results that another tool has written (JUnit XML) as results of a lane: each of its tests is a case.

The results are of now, of this checkout and of this machine: whoever takes them says so. They hold no numbers, so a
test that passed is ``held``.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.base.git import commit
from kernel_matrix.config import suite
from kernel_matrix.config.model import ASSERTED
from kernel_matrix.config.plan import Job, plan
from kernel_matrix.config.reads import Checkout
from kernel_matrix.job.test_names import COLLECTED, SUITE, Key, case_of, numbered, op_named
from kernel_matrix.pipeline import Project
from kernel_matrix.results.repeat import ANOTHER_TOOL
from kernel_matrix.run.decide import Decision, decide
from kernel_matrix.run.executors import Request
from kernel_matrix.run.job_run import facts_of
from kernel_matrix.store import junit, names, write
from kernel_matrix.store.junit import BrokenResultError
from kernel_matrix.store.load import WORST_FIRST, collect
from kernel_matrix.store.record import Record
from kernel_matrix.store.validation import RefusedError
from kernel_matrix.vendors.machine import Machine


def take(project: Project, files: Sequence[Path], platform: str, toolchain: str, machine: Machine) -> tuple[Path, str]:
    """Write the results of the files as the results of a job, with the list of its tests.

    Return the job's file, and a sentence about the results of an earlier take that are no longer there.

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
    tests = [test for file in files for test in _with_retries(_read(file))]
    if not tests:
        raise UserError(f"{', '.join(map(str, files))}: there is no test in it.")
    keys = list(numbered(_key(group, record) for group, record in tests))
    lane, job = f"{platform}/{target}/{toolchain}", f"{platform}.{toolchain}"
    taken = [_taken(record, lane, key, decision.action) for (_, record), key in zip(tests, keys, strict=True)]
    whole = _id(lane, (SUITE, COLLECTED))
    taken.insert(0, Record(whole, "pass", decision.action, metrics={"tests": float(len(taken))}))
    suite.write(project.results, {**suite.read([project.results]), job: tuple(keys)})
    replaced = _replaced(project.results, job, {record.case for record in taken})
    request = Request(project.root, project.build, matrix, Job(platform, toolchain, ()), decision.device, print)
    facts = {
        "files": " ".join(file.name for file in files),
        "commit": commit(project.root),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    facts |= Checkout(matrix, project.root).facts_of(platform, toolchain, ANOTHER_TOOL, ())
    devices = [decision.device] if decision.device else []
    return write.replace(project.results, facts_of(request, ANOTHER_TOOL, devices) | facts, taken), replaced


def _replaced(results: Path, job: str, taken: set[str]) -> str:
    """Return a sentence about the earlier results of a job whose tests the new ones do not have; empty without any."""
    earlier = collect(names.results_of(results, job)).records if results.is_dir() else ()
    gone = [record for record in earlier if record.case not in taken]
    if not gone:
        return ""
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in Counter(one.outcome for one in gone).items())
    worst = min(gone, key=lambda record: WORST_FIRST.index(record.outcome))
    listed = names.printable(worst.facts.get("test", worst.case))[:150]
    return (
        f"It replaces an earlier take, of which {len(gone)} results are gone ({outcomes}), such as {listed}. "
        "Name all files in one command to have them together."
    )


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


def _read(file: Path) -> list[tuple[str, Record]]:
    """Return the tests of a file, each with its class."""
    try:
        tests = junit.read_tests(file)
    except RefusedError as error:
        raise UserError(f"{file}: {error}") from None
    except BrokenResultError as error:
        raise UserError(str(error)) from None
    if any("job" in record.job for _, record in tests):
        raise UserError(
            f"{file}: kernel-matrix has written it. `kernel-matrix report {file.parent}` takes it as it is."
        )
    return tests


def _with_retries(tests: Sequence[tuple[str, Record]]) -> list[tuple[str, Record]]:
    """Return the tests; one that passes after it failed in the same suite is a retry, and says so.

    A test that fails after it passed is another test: the worse counts.
    """
    found: dict[tuple[str, str], list[Record]] = {}
    groups = {(record.run, record.case): group for group, record in tests}
    for _, record in tests:
        same = found.setdefault((record.run, record.case), [])
        if same and same[-1].outcome in ("fail", "error") and record.outcome == "pass":
            before = same.pop()
            same.append(replace(record, attempts=(*before.attempts, before.outcome, *record.attempts)))
        else:
            same.append(record)
    return [(groups[key], record) for key, same in found.items() for record in same]


def _key(group: str, record: Record) -> Key:
    """Return the operator and the case of a test: its class and its name, or its name alone where there is no other."""
    name = record.case[len(group) + 1 :] if group else record.case[len(record.case) // 2 + 1 :]
    return op_named(group or name), case_of(name)


def _id(lane: str, key: Key) -> str:
    return f"{lane}/{key[0]}.{ASSERTED}/{key[1]}"


def _taken(record: Record, lane: str, key: Key, action: str) -> Record:
    """Return a record of another tool as the record of a case; nothing ran of a test that was skipped."""
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
