"""Metrics of records -> the figures of the document."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from packaging.utils import canonicalize_name

from kernel_matrix.report.document import Accuracy, Artifact, Canaries, Determinism, Noise, Number, Times
from kernel_matrix.results import noise as noises
from kernel_matrix.results.canaries import detection
from kernel_matrix.results.record import Record

_NOT_OUTPUTS = ("artifact", "bench", "canary", "time")


def number(value: float) -> Number:
    """Return a number that JSON can hold: with five digits, and Inf and NaN as words."""
    if not math.isfinite(value):
        return str(value)
    return int(value) if value == int(value) and abs(value) < 1e15 else float(f"{value:.5g}")


def outputs(record: Record) -> dict[str, dict[str, Number]]:
    """Return the metrics by output, with the noise ratio: ``{"h_in": {"max_abs": 1e-7, "noise_ratio": 1.02, ...}}``."""
    by_output: dict[str, dict[str, Number]] = {}
    for key, value in record.metrics.items():
        output, dot, figure = key.partition(".")
        if dot and output not in _NOT_OUTPUTS and figure != "noise_ratio":
            by_output.setdefault(output, {})[figure] = number(value)
    for output, ratio in noises.ratios(record).items():
        by_output[output]["noise_ratio"] = number(ratio)
    return by_output


def noise(by_dtype: Mapping[str, Iterable[Record]]) -> dict[str, dict[str, Noise]]:
    """Return the noise of all outputs by dtype, and then by output."""
    figures = {dtype: noises.pooled(records) for dtype, records in sorted(by_dtype.items())}
    return {
        dtype: {output: _noise(pooled) for output, pooled in outputs.items()}
        for dtype, outputs in figures.items()
        if outputs
    }


def accuracy(records: Iterable[Record]) -> Accuracy | None:
    """Return the error that came nearest to its budget, or went furthest beyond it; None if nothing was measured."""
    worst: tuple[float, str, Record] | None = None
    for record in records:
        for key, value in record.metrics.items():
            if key.endswith((".max_abs", ".rel_fro")) and (limit := record.metrics.get(_limit(key))):
                share = value / limit if math.isfinite(value) else math.inf
                if worst is None or share > worst[0]:
                    worst = share, key, record
    if worst is None:
        return None
    share, key, record = worst
    output, _, figure = key.rpartition(".")
    return Accuracy(
        case=record.case,
        output=output,
        figure=figure,
        error=number(record.metrics[key]),
        limit=number(record.metrics[_limit(key)]),
        share=number(share),
        noise_ratio=_known(noises.ratios(record).get(output)),
    )


def times(record: Record) -> Times | None:
    """Return the times of a case that was timed; None if it was not."""
    try:
        run, baseline, ratio, rounds = (record.metrics[f"time.{name}"] for name in ("run", "eager", "ratio", "rounds"))
    except KeyError:
        return None
    return Times(run=_rounded(run), baseline=_rounded(baseline), ratio=_rounded(ratio), rounds=int(rounds))


def resources(record: Record) -> dict[str, Number]:
    """Return what the code of a case needs: its bytes, registers and so on."""
    return {key[9:]: number(value) for key, value in record.metrics.items() if key.startswith("artifact.")}


def artifact(records: Iterable[Record]) -> Artifact | None:
    """Return the kinds of code that came out, and the largest of each resource; None if no code did."""
    kinds: set[str] = set()
    largest: dict[str, float] = {}
    for record in records:
        if kind := record.facts.get("artifact.kind"):
            kinds.add(kind)
        for key, value in record.metrics.items():
            if key.startswith("artifact."):
                largest[key[9:]] = max(largest.get(key[9:], 0), value)
    if not kinds:
        return None
    return Artifact(kinds=tuple(sorted(kinds)), largest={name: number(value) for name, value in largest.items()})


def canaries(records: Iterable[Record]) -> Canaries | None:
    """Return how many injected faults the comparison found; None if none was injected."""
    found = detection(records)
    return Canaries(injected=found.injected, caught=found.caught) if found.injected else None


def determinism(records: Iterable[Record]) -> Determinism | None:
    """Return how many repeated runs gave other bits; None if no record says that a run was repeated."""
    counts = [(record.metrics.get("repeats", 0), record.metrics.get("repeats_differing", 0)) for record in records]
    repeats, differing = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    return Determinism(repeats=int(repeats), differing=int(differing)) if repeats else None


def versions(records: Iterable[Record], distributions: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the versions that the records name, of Python and of these distributions; of all if none is given."""
    wanted = {canonicalize_name(name) for name in distributions}
    jobs: dict[int, Mapping[str, str]] = {id(record.job): record.job for record in records}
    by_name: dict[str, set[str]] = {}
    for job in jobs.values():
        for key, value in job.items():
            name = key.removeprefix("version.")
            if key == "python" or (key != name and (not wanted or canonicalize_name(name) in wanted)):
                by_name.setdefault(name, set()).add(value)
    return {name: tuple(sorted(values)) for name, values in sorted(by_name.items())}


def _noise(pooled: noises.Noise) -> Noise:
    return Noise(
        ratio=_known(pooled.ratio),
        misrounded=_known(pooled.misrounded),
        floor_misrounded=_known(pooled.floor_misrounded),
        elements=int(pooled.elements),
        cases=pooled.cases,
        evidence=pooled.evidence,
    )


def _known(value: float | None) -> Number | None:
    return None if value is None else number(value)


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def _limit(error: str) -> str:
    output, _, figure = error.rpartition(".")
    return f"{output}.limit_{figure}"
