"""Ask of results that a report gathers whether anything is to be said of them before. It imports little."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from kernel_matrix.config.plan import Case
from kernel_matrix.results.states import CAUGHT, INJECTED
from kernel_matrix.store import names


def passed_at_once(files: Iterable[Path], cases: Sequence[Case]) -> bool:
    """Return whether each case passed at its first attempt, in files that are all journals.

    Where one was expected to fail, or a canary was not found, the judge has more to say.
    """
    passed: set[str] = set()
    for path in files:
        if not names.is_journal(path):
            return False
        first, *ends = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        if first["facts"].get(INJECTED) != first["facts"].get(CAUGHT):
            return False
        passed |= {end["case"] for end in ends if end["outcome"] == "pass" and not end["attempts"]}
    return all(case.id in passed and not case.expectations for case in cases)
