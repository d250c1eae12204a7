"""Sum up what the comparisons of several tests see together, by line, and in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kernel_matrix.job.suite_canaries.asking import words_of


@dataclass
class Sum:
    """A line of the suite: for each fault, how often it was put in and how often it was let through."""

    at: str
    call: str
    tried: dict[str, int] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)
    allows: float = 0.0  # Inf where any number passes
    budget: float = 0.0
    more: bool = False  # whether it may let one be off by more
    second: float = 0.0  # as allows, where the second argument is the result and may be off by more

    @property
    def unseen(self) -> list[str]:
        """The faults that it let through at least once."""
        return [fault for fault, count in self.passed.items() if count]

    @property
    def seen(self) -> int:
        """The number of faults that it found every time."""
        return len(self.tried) - len(self.unseen)


def summed(facts: Iterable[str]) -> list[Sum]:
    """Return the lines of several tests, each once; those that let most through come first."""
    lines: dict[tuple[str, str], Sum] = {}
    for fact in facts:
        for said in words_of(fact).get("lines", ()):
            line = lines.setdefault((said["at"], said["call"]), Sum(said["at"], said["call"]))
            for fault, (tried, passed) in said["faults"].items():
                line.tried[fault] = line.tried.get(fault, 0) + tried
                line.passed[fault] = line.passed.get(fault, 0) + passed
            line.allows = max(line.allows, math.inf if said.get("anything") else said.get("allows", 0.0))
            line.budget = max(line.budget, said.get("budget", 0.0))
            second = said.get("second", 0.0)
            line.second = max(line.second, math.inf if second is None else second)
            line.more |= said.get("at least", False)
    return sorted(lines.values(), key=lambda line: (-len(line.unseen), line.at))


def kinds(lines: Sequence[Sum]) -> tuple[int, int]:
    """Return how many kinds of faults all lines see that were asked about them, and how many were asked about."""
    tried = {fault for line in lines for fault in line.tried}
    return len(tried - {fault for line in lines for fault in line.unseen}), len(tried)


def without_time(facts: Iterable[str]) -> Iterator[str]:
    """Yield in words that comparisons were not asked because there was no time; nothing where all were."""
    counts = [count for fact in facts if (count := words_of(fact).get("no time", 0))]
    if counts:
        yield f"There was no time to ask {sum(counts)} comparisons of {len(counts)} tests"


def in_words(line: Sum) -> str:
    """Return what a line sees, what it lets through, and what the noise would ask for."""
    words = f"{line.at} ({line.call}) sees {line.seen} of {len(line.tried)} faults"
    if line.unseen:
        words += f"; it lets through {', '.join(_times(fault, line.tried, line.passed) for fault in line.unseen)}"
    if math.isinf(line.allows):
        words += ". It allows anything: one element may be any number"
    elif line.allows > line.budget:
        words += f". One element may be off by {'at least ' * line.more}{line.allows:.3g}"
        if line.second > line.allows:
            much = f"by {line.second:.3g}" if math.isfinite(line.second) else "by anything"
            words += f", and {much} if the second argument is the result"
        words += f"; four times the noise here is {line.budget:.3g}" if line.budget else ""
    return words


def _times(fault: str, tried: Mapping[str, int], passed: Mapping[str, int]) -> str:
    return fault if passed[fault] == tried[fault] else f"{fault} ({passed[fault]} of {tried[fault]} times)"
