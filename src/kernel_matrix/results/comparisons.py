"""Sum up what the lines of a suite see of known faults, in words that hold for the numbers of each line."""

from __future__ import annotations

import json
from collections.abc import Iterable

from kernel_matrix.job.suite_canaries.asking import words_of
from kernel_matrix.job.suite_canaries.summing import Sum, summed

_OFF = "one element off by 1 % of the largest"
_OF_INTEGERS = "one element off by 1"  # also of zeros alone: there is no noise, and 1 % of the largest may be none


def lines_of(facts: Iterable[str]) -> list[Sum]:
    """Return the lines of several tests, each once; those that let most through come first."""
    return summed(map(_worded, facts))


def _worded(fact: str) -> str:
    """Return a fact in which a fault is named as it was put in: where a line allows no error, it is another one."""
    words = words_of(fact)
    for line in words.get("lines", ()):
        if not line.get("budget"):
            line["faults"] = {_OF_INTEGERS if name == _OFF else name: of for name, of in line["faults"].items()}
    return json.dumps(words)
