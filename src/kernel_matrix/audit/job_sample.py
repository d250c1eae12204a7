"""Audit a part of a large page: some jobs, chosen at random, whose results are read and counted anew.

The rules that compare a result with the results of all other jobs (common inputs, common figures) need all results.
Here the page is believed where it says that one of these two rules decided; the rest is computed from the results
alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from kernel_matrix.audit import figures
from kernel_matrix.audit.figures import Difference, Shown
from kernel_matrix.audit.plan import Facts
from kernel_matrix.audit.raw import Raw
from kernel_matrix.audit.states import Judge, Now
from kernel_matrix.config.model import Matrix

# A result takes 0.1 MB and 2 ms. The jobs that are chosen have so many together; a single one may have more.
MOST_SAMPLED, MOST_OF_ONE = 2_000, 20_000
_OTHER_INPUTS = re.compile(r"refused: other inputs \(([^)]*)\)")
_OUT_OF_LINE = "the other results"

Place = tuple[str, str]  # platform and toolchain


@dataclass(frozen=True)
class Source:
    """The files with results of a platform's toolchain, and the number of these results."""

    files: tuple[Path, ...]
    results: int


@dataclass(frozen=True)
class Sample:
    """The platforms' toolchains that are audited, and the number of all results."""

    sources: Mapping[Place, Source]
    of: int

    @property
    def results(self) -> int:
        """The number of results that are audited."""
        return sum(source.results for source in self.sources.values())

    @property
    def files(self) -> list[Path]:
        """The files of these results."""
        return list(dict.fromkeys(file for source in self.sources.values() for file in source.files))

    @property
    def note(self) -> str:
        """The sentence on the page that says what was audited."""
        if not self.sources:
            return (
                "The figures of this page were not computed a second time, apart from the sums over all cells: no job "
                f"has 1 to {MOST_OF_ONE:,} results of planned cases. `kernel-matrix audit` does all."
            )
        names = ", ".join(sorted(".".join(place) for place in self.sources))
        return (
            f"Of {self.of:,} results {self.results:,} were read and counted a second time, those of jobs that were "
            f"chosen at random ({names}), and so were the sums over all cells; not the comparison of a result with "
            "those of other jobs. `kernel-matrix audit` does all."
        )


def choose(sources: Mapping[Place, Source], results: int, seed: str) -> Sample:
    """Return some of the sources, chosen at random; ``results`` is the number of all results."""
    order = sorted(sources)
    Random(seed).shuffle(order)  # noqa: S311  nothing secret
    chosen: dict[Place, Source] = {}
    total = 0
    for place in order:
        if total + sources[place].results <= MOST_SAMPLED:
            chosen[place] = sources[place]
            total += sources[place].results
    least = min(order, key=lambda place: sources[place].results, default=None)
    if not chosen and least is not None and sources[least].results <= MOST_OF_ONE:
        chosen[least] = sources[least]
    return Sample(chosen, results)


def content_of(matrix: Matrix, places: Collection[Place]) -> dict[str, Any]:
    """Return the plain content of matrix.yaml with these platforms' toolchains alone."""
    content = {**matrix.model_dump(serialize_as_any=True), "accuracy": matrix.accuracy.limits()}
    platforms = {}
    for name, platform in content["platforms"].items():
        entries = [
            entry for entry in platform["toolchains"]
            if (name, entry if isinstance(entry, str) else entry["toolchain"]) in places
        ]  # fmt: skip
        if entries:
            platforms[name] = {**platform, "toolchains": entries}
    return {**content, "platforms": platforms}


class SampleJudge(Judge):
    """Say which states the page may give to a case, where not all results are known."""

    def __init__(
        self,
        matrix: Mapping[str, Any],
        cases: Mapping[str, Facts],
        raws: Mapping[str, list[Raw]],
        now: Now,
        cells: Sequence[Shown],
    ) -> None:
        """Take the page's ``cells``, which say whose inputs were refused."""
        self._refused = {
            (case_of(cell, result), match[1])
            for cell in cells
            for result in cell["results"]
            if result["state"] == "missing" and (match := _OTHER_INPUTS.match(result["reason"]))
        }
        self._refused_digests = {digest for _, digest in self._refused}
        super().__init__(matrix, cases, raws, now)

    def shown_as(self, case: str, result: Shown) -> list[tuple[str, Raw | None]]:
        """Return the states that a case may have; a result that is said to differ from the others may be an error."""
        if result["state"] == "told":  # the results of persons outside are not in the sample
            return [("told", None)]
        allowed = super().shown_as(case, result)
        if result["state"] == "error" and _OUT_OF_LINE in result["reason"]:
            allowed += [("error", raw) for raw in self.raws[case] if raw.outcome == "pass"]
        return allowed

    def _has_other_inputs(self, case: str, raw: Raw) -> bool:
        digest = raw.facts.get("inputs.sha256", "")[:16]
        return digest in self._refused_digests and (tuple(case.split("/")[3:]), digest) in self._refused

    def _medians(self) -> dict[tuple[Any, ...], dict[str, float]]:
        return {}

    def _unlike(self) -> set[int]:
        return set()


def case_of(cell: Shown, result: Shown) -> tuple[str, ...]:
    """Return the operator and the name of a case, which have the same inputs in all cells."""
    return cell["id"].split("/")[3], result["name"]


def sums(run: Mapping[str, Any], every: Iterable[Shown]) -> Iterator[Difference]:
    """Yield where the sums of the whole in ``run`` differ from the cells of compat.json, without their cases."""
    cells = planned = stale_cases = emulated = 0
    states: Counter[str] = Counter()
    evidence: Counter[str] = Counter()
    stale: Counter[str] = Counter()
    cases: Counter[str] = Counter()
    for cell in every:
        cells, planned, stale_cases = cells + 1, planned + cell["planned"], stale_cases + cell["stale_cases"]
        states[cell["state"]] += 1
        emulated += cell["emulated"] > 0
        evidence[cell["evidence"]] += 1
        stale[cell["evidence"]] += bool(cell["stale"])
        cases.update(cell["cases"])
    counted = {
        "cells": cells,
        "cells_by_state": dict(states),
        "cells_by_evidence": dict(evidence),
        "stale_by_evidence": dict(+stale),
        "emulated": emulated,
        "cases": planned,
        "cases_by_state": dict(cases),
        "stale_cases": stale_cases,
    }
    for key, value in counted.items():
        yield from figures.unequal(f"run.{key}", run[key], value)
    yield from figures.unequal("run: the sum of cases_by_state", sum(run["cases_by_state"].values()), planned)
