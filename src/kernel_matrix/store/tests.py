"""Result folders -> the tests of the jobs whose results lie there: which cases a suite without operators has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from kernel_matrix.config.suite import Listed, has_tests, listed_of
from kernel_matrix.store import names
from kernel_matrix.store.record import TOLD_BY
from kernel_matrix.store.validation import STREAMED

Facts = Mapping[str, str]


def read(folders: Sequence[Path]) -> Listed:
    """Return the tests that the results below the folders name. Of several runs of a job, the newest counts.

    What a person outside the project has told of the same job counts too. A file that cannot be read says nothing
    here: it is refused where its results are read.
    """
    newest: dict[tuple[str, str], Facts] = {}
    for facts in _jobs([folder for folder in folders if folder.exists()]):
        key = facts.get("job", ""), facts.get(TOLD_BY, "")
        if has_tests(facts) and (key not in newest or facts.get("started", "") > newest[key].get("started", "")):
            newest[key] = facts
    return listed_of({" ".join(filter(None, key)): newest[key] for key in sorted(newest)})


def _jobs(folders: Sequence[Path]) -> Iterator[Facts]:
    """Yield the facts of the jobs."""
    found = names.find_results(folders, STREAMED)
    if found.runs and find_spec("pyarrow") and find_spec("duckdb"):
        from kernel_matrix.store import checks  # they take long to import
        from kernel_matrix.store.write import facts_by_run

        refused = checks.check(found.runs, STREAMED)
        for files in found.runs:
            yield from facts_by_run(files.path("jobs")).values() if files not in refused else ()
    for path in found.journals:
        try:
            with path.open(encoding="utf-8") as file:
                facts = json.loads(file.readline())["facts"]
            yield {str(name): str(value) for name, value in facts.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
