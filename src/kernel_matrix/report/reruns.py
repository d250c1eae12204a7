"""The one word that running a red case again gives it: what each needs, and how it comes into the case's reason.

A word changes no state: what was red stays red.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_matrix.report import checks
from kernel_matrix.report.checks import Check
from kernel_matrix.results.states import RED

if TYPE_CHECKING:  # DuckDB takes long to import
    from kernel_matrix.store.database import Connection

NAME = "again"  # of the check that holds the words, and of its files
NEW, BASE, FLAKY, MACHINE = "new here", "also on the base", "flaky", "machine"


@dataclass(frozen=True)
class Tries:
    """The tries of a red case on one commit and machine, and what is known of the base and of other machines.

    It was red in ``red`` of ``total``. ``base`` is the base commit, if the case came to an end there. ``elsewhere`` is
    another machine on which this commit passed, and ``before`` says that the base passed on this machine before.
    """

    red: int
    total: int
    base: str = ""
    base_red: bool = False
    elsewhere: str = ""
    before: bool = False

    @property
    def word(self) -> str:
        """The word; empty where what is known allows none."""
        if self.total < 2:
            return ""
        if self.red < self.total:
            return FLAKY
        if self.base and not self.base_red:
            return NEW
        if self.elsewhere or (self.base and self.before):
            return MACHINE
        return BASE if self.base else ""

    @property
    def text(self) -> str:
        """The word with its counts."""
        counts = f"{self.red} of {self.total} on one commit"
        if self.word == FLAKY:
            return f"{FLAKY} ({counts})"
        of_base = f"the base {self.base} is {'red' if self.base_red else 'not red'}" if self.base else "no base was run"
        known = [f"red {counts}", of_base]
        known += [f"this commit passed on {self.elsewhere}"] if self.elsewhere else []
        known += ["the base passed on this machine before"] if self.before else []
        return f"{self.word} ({'; '.join(known)})" if self.word else "; ".join(known)


def machine_of(facts: Mapping[str, str]) -> str:
    """Return the name of a machine: its device and the driver. Machines that have both in common count as one."""
    device, driver = facts.get("device", ""), facts.get("driver", "")
    return f"{device}, driver {driver}" if driver else device


def enter(connection: Connection, build: Path) -> None:
    """Add what running again has told to the reasons of red cases, at the beginning: a comment cuts a long one.

    The audit knows some reasons of missing cases by their beginning, so there it stands at the end.
    Only results of the same commit and machine that are not newer get it.
    """
    said: dict[str, list[tuple[Check, str]]] = {}
    for check in checks.read(build / checks.FOLDER, name=f"{NAME}*"):
        for finding in check.findings:
            said.setdefault(finding.case, []).append((check, finding.text))
    if not said:
        return
    from kernel_matrix.store.database import rows
    from kernel_matrix.store.records import Jobs

    question = """
        SELECT planned, reason, state, "case", job FROM verdicts JOIN cases USING (record)
        WHERE list_contains($1, "case") AND list_contains($2, state)
    """
    jobs = Jobs(connection)
    for planned, reason, state, case, job in rows(connection, question, [[*said], [*RED]]):
        for text in (text for check, text in said[case] if _is_about(check, jobs[job])):
            new = f"{reason} [{text}]" if state == "missing" else f"[{text}] {reason}"
            connection.execute("UPDATE verdicts SET reason = ? WHERE planned = ?", [new, planned])


def _is_about(check: Check, facts: Mapping[str, str]) -> bool:
    """Return whether running again came after a job, on its commit and machine; its time is of the same clock."""
    same = (check.commit, check.machine) == (facts.get("commit", ""), machine_of(facts))
    return same and "" < facts.get("started", "") <= check.when
