"""Say of tests that a suite has in one environment alone that the others do not have them."""

from __future__ import annotations

from collections.abc import Mapping

from kernel_matrix.config.plan import Plan
from kernel_matrix.config.suite import has_tests, listed_of
from kernel_matrix.job.test_names import NOT_COLLECTED, Key
from kernel_matrix.store.database import Connection, rows
from kernel_matrix.store.record import Record
from kernel_matrix.store.records import Jobs, add_records

_PRESENT = 'SELECT "case" FROM cases JOIN sources USING (source) WHERE position IS NOT NULL'
_LANES = """
    SELECT DISTINCT job, split_part("case", '/', 1), split_part("case", '/', 2), split_part("case", '/', 3)
    FROM cases JOIN sources USING (source) WHERE position IS NOT NULL
"""


def enter(connection: Connection, planned: Plan) -> None:
    """Add a record for each planned test without one that the list of its own lane does not have.

    Rows run apart, and none of them knows the tests that another one finds. A list is believed only beside a list of
    the same commit that has the test: a test that is new has not been tried.
    """
    lists = _lists(connection, Jobs(connection))
    commits: dict[Key, set[str]] = {}
    for commit, tests in (one for of_lane in lists.values() for one in of_lane.items()):
        for key in tests:
            commits.setdefault(key, set()).add(commit)
    present = {case for (case,) in rows(connection, _PRESENT)}
    absent = []
    for case in planned.cases:
        key = case.cell.op, case.name
        of_lane = lists.get((case.cell.platform, case.cell.target, case.cell.toolchain), {})
        without = {commit for commit, tests in of_lane.items() if key not in tests}
        if without & commits.get(key, set()) and len(without) == len(of_lane) and case.id not in present:
            absent.append(Record(case.id, "unavailable", message=NOT_COLLECTED))
    if absent:
        add_records(connection, "tests that are not in an environment", absent)


def _lists(connection: Connection, jobs: Jobs) -> Mapping[tuple[str, str, str], dict[str, set[Key]]]:
    """Return the tests of each lane, by the commit that had them there."""
    lists: dict[tuple[str, str, str], dict[str, set[Key]]] = {}
    for job, *lane in rows(connection, _LANES):
        facts = jobs[job]
        tests = listed_of({"": facts}).tests[""] if has_tests(facts) else ()
        if tests:
            of_lane = lists.setdefault((lane[0], lane[1], lane[2]), {})
            of_lane.setdefault(facts.get("commit", ""), set()).update(tests)
    return lists
