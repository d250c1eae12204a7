"""A matrix without operators: the cases are the tests of the package's own suite.

A test file is an operator, in the direction ``tests``; a test is a case. Which tests there are is known when a suite
has been collected in the environment of a toolchain. A file next to the results keeps the tests (``tests.json``), by
job. What was collected for one job is planned for all: a job whose suite lacks a test says so. Before anything was
collected, the plan has one case for each lane: that the suite can be collected.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import write_atomically
from kernel_matrix.config.model import ASSERTED, Matrix, Op, default_cap
from kernel_matrix.config.plan import Case
from kernel_matrix.job.test_names import COLLECTED, SUITE, Key

FILE = "tests.json"
_AXIS = "test"
_VERSION = 1
_MOST_BYTES = 256 * 2**20


SuiteTests = Mapping[str, tuple[Key, ...]]  # by job; a test is the operator and the name of its case


def _by_op(tests: SuiteTests) -> dict[str, list[str]]:
    """Return the names of the tests of all jobs by operator, each once, in the order of the first job that has it."""
    ops: dict[str, dict[str, None]] = {}
    for op, name in (key for keys in tests.values() for key in keys):
        ops.setdefault(op, {})[name] = None
    return {op: list(names) for op, names in ops.items()}


def is_suite(matrix: Matrix) -> bool:
    """Return whether the cases of a matrix are the tests of the package's own suite."""
    return not matrix.ops or (SUITE in matrix.ops and matrix.ops[SUITE].axes == [_AXIS])


def with_tests(matrix: Matrix, tests: SuiteTests) -> Matrix:
    """Return the matrix with the tests as its operators and cases; one that names operators stays as it is."""
    if not is_suite(matrix):
        return matrix
    names = {SUITE: [COLLECTED], **_by_op(tests)}
    caps = {ASSERTED: default_cap(), **matrix.accuracy.caps}
    return matrix.model_copy(
        update={
            "ops": {op: _op(cases) for op, cases in names.items()},
            "package": matrix.package.model_copy(update={"directions": [ASSERTED]}),
            "accuracy": matrix.accuracy.model_copy(update={"caps": caps}),
        }
    )


def _op(names: Sequence[str]) -> Op:
    return Op(directions=[ASSERTED], axes=[_AXIS], cases={"quick": [{_AXIS: list(names)}]})


def with_new_tests(cases: Sequence[Case], planned: Iterable[Case], named: Iterable[str]) -> tuple[Case, ...]:
    """Return the cases of a row, and those that nobody could name when the rows were made.

    The row that has a lane's case ``collected`` runs all tests of that lane that no row names.
    """
    lanes = {_lane(case) for case in cases if (case.cell.op, case.name) == (SUITE, COLLECTED)}
    if not lanes:
        return tuple(cases)
    known = set(named)
    return (*cases, *(case for case in planned if _lane(case) in lanes and case.id not in known))


def _lane(case: Case) -> tuple[str, str, str]:
    return case.cell.platform, case.cell.target, case.cell.toolchain


def read(folders: Iterable[Path]) -> SuiteTests:
    """Return the tests that the files below the folders name; of a job that several name, the last file's.

    Raises:
        UserError: a file cannot be used.
    """
    tests: dict[str, tuple[Key, ...]] = {}
    for folder in folders:
        files = sorted(folder.rglob(FILE)) if folder.is_dir() else [folder.with_name(FILE)]
        for path in files:
            if path.is_file() and not path.is_symlink():
                tests |= _read(path)
    return tests


def _read(path: Path) -> SuiteTests:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES} bytes")
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["version"] != _VERSION:
            raise ValueError(f"its version is {content['version']!r}, and {_VERSION} is read here")
        return {str(job): tuple(_key(key) for key in keys) for job, keys in content["jobs"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: this is no list of tests: {error}. Delete it, and run again.") from None


def _key(given: object) -> Key:
    if not isinstance(given, list) or len(given) != 2 or not all(isinstance(part, str) and part for part in given):
        raise ValueError("a test is a pair of names")
    op, name = given
    if any("/" in part or not part.isprintable() or len(part) > 200 for part in (op, name)):
        raise ValueError("a name has a slash, is too long, or cannot be printed")
    return op, name


def write(folder: Path, tests: SuiteTests) -> Path:
    """Write the file into a folder of results, and return its path."""
    path = folder / FILE
    folder.mkdir(parents=True, exist_ok=True)
    content = {"version": _VERSION, "jobs": {job: [list(key) for key in keys] for job, keys in tests.items()}}
    write_atomically(path, json.dumps(content, ensure_ascii=False).encode("utf-8"))
    return path
