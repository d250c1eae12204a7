"""The results of one run of a lane, and the comparison of two runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernel_matrix.results.states import RED, Verdict
from kernel_matrix.store.record import Record

_NO_KERNEL = ("install", "machine")  # stages that say nothing about the kernel
_CODE = "artifact.sha256"


class NotTriedError(Exception):
    """A kind of cache was not tried on a lane; the text says why."""


@dataclass(frozen=True)
class Result:
    """The end of one case: its state in words, and the digests of its outputs or of its code."""

    state: str
    words: str
    bits: Mapping[str, str]
    red: bool
    ended: bool

    def difference(self, other: Result) -> str:
        """Return what is different in the other one, which had another cache; empty if nothing is."""
        if other.state != self.state:
            return other.words
        names = [name for name in self.bits if other.bits.get(name) != self.bits[name]]
        if not names and other.bits.keys() == self.bits.keys():
            return ""
        return f"other bits of {', '.join(names or sorted(other.bits.keys() - self.bits.keys()))}"


@dataclass(frozen=True)
class Ran:
    """The results of a run by case. ``began`` says with what, where a kind of cache has several runs."""

    results: Mapping[str, Result]
    began: str = ""


def result_of(verdict: Verdict, record: Record | None) -> Result:
    """Return the result of a case, whose record is whole."""
    bits = {name: sample.sha256 for name, sample in record.samples.items()} if record else {}
    if record and _CODE in record.facts:
        bits["code"] = record.facts[_CODE]
    message = "\n".join(filter(None, (verdict.reason, record.detail if record else "")))
    stage = f" in stage {record.stage}" if record and record.stage else ""
    red = verdict.state in RED
    silent = not (bits or red or verdict.state == "known" or verdict.case.owed.asserted)
    return Result(
        state=verdict.state,
        words=f"{verdict.state}, but no numbers and no code" if silent else f"{verdict.state}{stage}: {message}",
        bits=bits,
        red=red,
        ended=record is not None and record.stage not in _NO_KERNEL and not silent,
    )
