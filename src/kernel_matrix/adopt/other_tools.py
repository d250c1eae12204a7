"""Take the results that another tool has written (JUnit XML) as results of a lane: each of its tests is a case.

The results are of now, of this checkout and of this machine: whoever takes them says so. They hold no numbers, so a
test that passed is ``held``.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.base.git import commit
from kernel_matrix.config import suite
from kernel_matrix.config.model import ASSERTED, Matrix
from kernel_matrix.config.plan import Job, plan
from kernel_matrix.config.reads import Checkout
from kernel_matrix.job.test_names import Key, case_of, numbered, op_named
from kernel_matrix.pipeline import Project
from kernel_matrix.results.repeat import ANOTHER_TOOL
from kernel_matrix.run.decide import Decision, decide
from kernel_matrix.run.executors import Request
from kernel_matrix.run.job_run import facts_of
from kernel_matrix.run.no_device import as_unavailable, has_device
from kernel_matrix.store import junit, names, write
from kernel_matrix.store.junit import BrokenResultError, OtherFormatError
from kernel_matrix.store.load import collect
from kernel_matrix.store.record import WORST_FIRST, Record
from kernel_matrix.store.validation import RefusedError
from kernel_matrix.vendors.machine import Machine

_ENDS = (".xml", ".xml.gz")
_ATTEMPTS_OF_BAZEL = "test_attempts"


@dataclass(frozen=True)
class Taken:
    """The file of a job that was written, and sentences about what it has not, or what the files say wrongly."""

    path: Path
    notes: tuple[str, ...]


def take(
    project: Project,
    paths: Sequence[Path],
    platform: str,
    toolchain: str,
    machine: Machine,
    *,
    are_attempts: bool = False,
) -> Taken:
    """Write the results of the files, and of all files of folders, as the results of a job, with the list of its tests.

    ``are_attempts`` says that what has one name in a suite is one test that was run again.

    Raises:
        UserError: the matrix has operators, a name is unknown, this machine has no such device, or a file is not JUnit
            XML of another tool.
    """
    _check_lane(matrix := project.matrix, platform, toolchain)
    target, decision = _place(project, platform, toolchain, machine)
    files = files_of(paths)
    tests, notes = read_all(files, are_attempts=are_attempts)
    keys = list(numbered(_key(group, record) for group, record in tests))
    lane, job = f"{platform}/{target}/{toolchain}", f"{platform}.{toolchain}"
    taken = [_taken(record, lane, key, decision.action) for (_, record), key in zip(tests, keys, strict=True)]
    if not has_device(matrix, platform):
        taken = [as_unavailable(record, project.rules) for record in taken]
    replaced = _replaced(project.results, job, {record.case for record in taken})
    request = Request(project.root, project.build, matrix, Job(platform, toolchain, ()), decision.device, print)
    facts = {
        "files": " ".join(file.name for file in files),
        "commit": commit(project.root),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    facts |= suite.facts_of(keys)
    facts |= Checkout(matrix, project.root).facts_unwatched(platform, toolchain, ANOTHER_TOOL, ())
    devices = [decision.device] if decision.device else []
    path = write.replace(project.results, facts_of(request, ANOTHER_TOOL, devices) | facts, taken)
    idle = "" if any(one.action for one in taken) else f"Nothing ran: each of the {len(taken)} tests was skipped."
    return Taken(path, (*notes, *filter(None, (idle, replaced))))


def _check_lane(matrix: Matrix, platform: str, toolchain: str) -> None:
    """Raise a UserError if the matrix has no such lane for the tests of another tool."""
    if not suite.is_suite(matrix):
        raise UserError("matrix.yaml names operators, whose results another tool cannot give. Take 'ops' out.")
    if platform not in matrix.platforms:
        raise unknown("--platform", "platform", platform, matrix.platforms)
    entries = matrix.platforms[platform].by_toolchain
    if toolchain not in entries:
        raise unknown("--toolchain", "toolchain of the platform", toolchain, entries)


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
    planned = suite.with_tests(project.matrix, suite.Listed())
    jobs = [job for job in plan(planned, "quick").jobs if (job.platform, job.toolchain) == (platform, toolchain)]
    for case in (case for job in jobs for case in job.cases):
        decision = decide(planned, case, machine)
        if decision.device and decision.action in ("run", "emulate"):
            return case.cell.target, decision
        reasons.append(decision.reason)
    raise UserError(f"{platform}: {'; '.join(dict.fromkeys(reasons))}. Take the results where the tests ran.")


def files_of(paths: Sequence[Path]) -> dict[Path, bool]:
    """Return each file once, and for a folder all files of results below it; with whether a person has named it.

    Raises:
        UserError: a folder has none.
    """
    files: dict[Path, tuple[Path, bool]] = {}
    for path in paths:
        below = sorted(file for file in path.rglob("*") if file.name.endswith(_ENDS)) if path.is_dir() else [path]
        if not below:
            raise UserError(f"{path}: there is no file of JUnit XML in this folder ({', '.join(_ENDS)}).")
        for file in below:
            files.setdefault(file.resolve(), (file, file is path))
    return dict(files.values())


def read_all(files: Mapping[Path, bool], *, are_attempts: bool) -> tuple[list[tuple[str, Record]], list[str]]:
    """Return the tests of all files, each with its class, and a sentence about each number that cannot be right.

    A file that is named has tests. What lies in a folder beside them, such as a report of coverage, gets a sentence.

    Bazel writes an earlier attempt into a file of its own, in a folder next to the file of the last.
    """
    read = {file: _read(file, is_named=named, are_attempts=are_attempts) for file, named in files.items()}
    if not any(of_file.tests for of_file in read.values()):
        raise UserError(f"{', '.join(map(str, files))}: none of them is JUnit XML with tests.")
    tests: list[tuple[str, Record]] = []
    for file, of_file in read.items():
        last = file.parent.parent / "test.xml"
        if file.parent.name == _ATTEMPTS_OF_BAZEL and last in read:
            continue
        before = [one for one in read if one.parent == file.parent / _ATTEMPTS_OF_BAZEL and file.name == last.name]
        tests += [(group, _after(record, [read[one] for one in before])) for group, record in of_file.tests]
    return tests, [f"{file}: {note}" for file, of_file in read.items() for note in of_file.notes]


def _after(record: Record, before: Sequence[junit.Tests]) -> Record:
    """Return a record with the failures of the same test in the files of earlier attempts."""
    earlier = [one.outcome for of_file in before for _, one in of_file.tests if one.case == record.case]
    failed = tuple(outcome for outcome in earlier if outcome != "pass")
    return replace(record, attempts=(*failed, *record.attempts))


def _read(file: Path, *, is_named: bool, are_attempts: bool) -> junit.Tests:
    """Return what a file has.

    Raises:
        UserError: it has no test, or is no JUnit XML of another tool.
    """
    try:
        of_file = junit.read_tests(file, are_attempts=are_attempts)
    except RefusedError as error:
        raise UserError(f"{file}: {error}") from None
    except OtherFormatError as error:
        if is_named or error.has_results:
            raise UserError(str(error)) from None
        return junit.Tests([], [f"not taken: {str(error).removeprefix(f'{file}: ')}"])
    except BrokenResultError as error:
        raise UserError(str(error)) from None
    if any("job" in record.job for _, record in of_file.tests):
        raise UserError(
            f"{file}: kernel-matrix has written it. `kernel-matrix report {file.parent}` takes it as it is."
        )
    if not of_file.tests:
        raise UserError(f"{file}: there is no test in it.")
    return of_file


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
