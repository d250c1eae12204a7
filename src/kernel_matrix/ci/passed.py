"""A history of tables -> where a case passed at a commit, and how often cases are red and not on one commit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix.report import checks
from kernel_matrix.report.checks import Check, Finding
from kernel_matrix.report.reruns import FLAKY, machine_of

_PASSED = """
SELECT DISTINCT s."case", s.commit, s.device, j.driver FROM states AS s JOIN jobs AS j ON s.run = j.run
WHERE s.outcome IN ('pass', 'held') AND s.device NOT IN ('', 'none')
    AND list_contains($cases, s."case") AND list_contains($commits, s.commit)
ORDER BY ALL
"""
# A case that passed after other tries counts with these. A tree with changes has no commit that others have too.
_RATES = """
WITH tries AS (
    SELECT c."case", c.run, unnest(list_append(c.attempts, c.outcome)) AS outcome FROM cases AS c
    WHERE c.op <> '' AND c."case" NOT LIKE 'bench:%'
), of_commits AS (
    SELECT t."case", j.device, j.driver, j.commit, count(*) AS tries,
        count(*) FILTER (t.outcome IN ('fail', 'error')) AS red
    FROM tries AS t JOIN jobs AS j ON t.run = j.run
    WHERE t.outcome IN ('pass', 'fail', 'error') AND j.commit <> '' AND j.commit NOT LIKE '%+%'
    GROUP BY ALL HAVING count(*) > 1
)
SELECT "case", device, driver, sum(red)::BIGINT, sum(tries)::BIGINT,
    count(*) FILTER (red BETWEEN 1 AND tries - 1) AS mixed, count(*)
FROM of_commits GROUP BY "case", device, driver ORDER BY mixed DESC, "case", device, driver
"""


@dataclass(frozen=True)
class Passed:
    """The machines on which a case passed at a commit, by case and commit."""

    machines: dict[tuple[str, str], tuple[str, ...]]

    @classmethod
    def of(cls, folder: Path | None, cases: Collection[str], commits: Collection[str]) -> Passed:
        """Return what the tables of a folder say; nothing without one. A changed tree is no commit.

        Raises:
            UserError: the folder has no tables.
        """
        found: dict[tuple[str, str], list[str]] = {}
        asked = [commit for commit in commits if commit and "+" not in commit]
        if folder and cases and asked:
            from kernel_matrix.store.query import opened  # DuckDB takes long to import

            with opened([folder]) as database:
                values = {"cases": [*cases], "commits": asked}
                for case, commit, device, driver in database.connection.execute(_PASSED, values).fetchall():
                    found.setdefault((case, commit), []).append(machine_of({"device": device, "driver": driver}))
        return cls({key: tuple(machines) for key, machines in found.items()})

    def elsewhere(self, case: str, commit: str, machine: str) -> str:
        """Return another machine on which the case passed at the commit; empty if none is known."""
        return next((other for other in self.machines.get((case, commit), ()) if other != machine), "")

    def on(self, case: str, commit: str, machine: str) -> bool:
        """Return whether the case passed at the commit on the machine."""
        return machine in self.machines.get((case, commit), ())


@dataclass(frozen=True)
class Rate:
    """The tries of a case on a machine: ``red`` of ``tries`` were red, on ``commits`` with several tries.

    On ``mixed`` of these commits it was red and not red.
    """

    case: str
    machine: str
    red: int
    tries: int
    mixed: int
    commits: int

    @property
    def text(self) -> str:
        """The rate in words."""
        return f"{FLAKY} on {self.mixed} of {self.commits} commits; red {self.red} of {self.tries} times"


def rates(folder: Path) -> list[Rate]:
    """Return the rates of all cases that were tried several times on one commit and machine, the worst first.

    Raises:
        UserError: the folder has no tables.
    """
    from kernel_matrix.store.query import opened

    with opened([folder]) as database:
        found = database.connection.execute(_RATES).fetchall()
    return [
        Rate(case, machine_of({"device": device, "driver": driver}), *rest) for case, device, driver, *rest in found
    ]


def checks_of(found: Sequence[Rate], when: str) -> Iterator[Check]:
    """Yield the rates as checks, one for each machine: a finding is a case that was red and not red on one commit."""
    for machine in dict.fromkeys(rate.machine for rate in found):
        ones = [rate for rate in found if rate.machine == machine]
        findings = [Finding(case=rate.case, text=rate.text) for rate in ones if rate.mixed]
        yield Check(
            name=FLAKY,
            program="ci flaky",
            sees="whether a case was red and not red on one commit, in the history",
            machine=machine or "unknown",
            commit="",
            when=when,
            cells=checks.cells_of([rate.case for rate in ones], findings),
            findings=tuple(findings),
        )
