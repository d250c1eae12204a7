"""Sentences for the page about what each person outside the project has sent."""

from __future__ import annotations

from collections.abc import Iterator

from kernel_matrix.results.states import STATES
from kernel_matrix.store.database import Connection, rows

_QUESTION = """
    SELECT job['told.by'], job['told.key'], job['told.at'][:10], job['device'], job['commit'], count(*),
           histogram(t.state), count(*) FILTER (v.state = 'told')
    FROM told_results t JOIN verdicts v USING (planned) GROUP BY ALL ORDER BY ALL
"""


def notes(connection: Connection) -> Iterator[str]:
    """Yield a sentence for what each person has run: how it ended, and where their word stands."""
    told = rows(connection, "FROM told LIMIT 1")
    for by, key, at, device, commit, cases, states, stands in rows(connection, _QUESTION) if told else ():
        ended = ", ".join(f"{states[state]} {state}" for state in STATES if state in states)
        yield (
            f"{by} (key {key}, signed {at}) sent {cases} cases of {device} at commit {commit}: {ended}. "
            f"This word stands in {stands} of them; it counts in no figure of the project."
        )
