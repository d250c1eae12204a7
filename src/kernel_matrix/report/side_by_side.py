"""Two cells side by side -> lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernel_matrix.report.agreement import exact
from kernel_matrix.results.noise import ratios
from kernel_matrix.results.side_by_side import CasePair, OutputPair
from kernel_matrix.results.ulp import Distance
from kernel_matrix.store.record import Record

_HEAD = ("output", "bits", "ULP median", "p99", "max", "max_abs A", "max_abs B", "noise A", "noise B")


def lines(one: str, other: str, pairs: Sequence[CasePair]) -> Iterator[str]:
    """Yield the cases with the distances of their outputs, and errors and noise ratios of both sides."""
    yield f"A: {one}"
    yield f"B: {other}"
    for pair in pairs:
        yield ""
        yield f"{pair.name}: A {_state(pair.one)}, B {_state(pair.other)}"
        if pair.reason:
            yield f"  not compared: {pair.reason}"
            continue
        yield from _table([_HEAD, *(_row(pair, output) for output in pair.outputs)])
        yield from (line for output in pair.outputs for line in _difference(output))
    yield ""
    yield _summary(pairs)


def _state(record: Record | None) -> str:
    if record is None:
        return "no result"
    return f"{record.outcome}{f' in {record.stage}' if record.stage else ''}"


def _row(pair: CasePair, output: OutputPair) -> tuple[str, ...]:
    name = output.one if output.one == output.other else f"{output.one} | {output.other}"
    far = output.distance
    figures = (
        ("-",) * 4 if far is None else (_bits(far), *(f"{value:.3g}" for value in (far.median, far.p99, far.largest)))
    )
    sides = ((pair.one, output.one), (pair.other, output.other))
    errors = [_metric(record, f"{side}.max_abs") for record, side in sides]
    return name, *figures, *errors, *(_ratio(record, side) for record, side in sides)


def _bits(far: Distance) -> str:
    if far.identical:
        return "same"
    return "same in the sample" if far.sample_identical else "differ"


def _metric(record: Record | None, name: str) -> str:
    value = record.metrics.get(name) if record else None
    return "-" if value is None else f"{value:.3g}"


def _ratio(record: Record | None, output: str) -> str:
    """Return the error over that of the baseline; ``-`` where it is not known or the baseline has none."""
    ratio = ratios(record).get(output) if record else None
    return "-" if ratio is None else f"{ratio:.3g}"


def _difference(output: OutputPair) -> Iterator[str]:
    """Yield where an output differs first, or why it was not compared."""
    if output.reason:
        yield f"  {output.one}: not compared: {output.reason}"
    elif output.distance and (first := output.distance.first):
        index = list(first.index)
        yield f"  {output.one} differs first at {index}: A {exact(first.one)}, B {exact(first.other)}"


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yield rows as aligned columns: two of text, then numbers."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row in rows:
        texts = [text.ljust(width) for text, width in zip(row[:2], widths[:2], strict=True)]
        numbers = [text.rjust(width) for text, width in zip(row[2:], widths[2:], strict=True)]
        yield f"  {'  '.join([*texts, *numbers])}".rstrip()


def _summary(pairs: Sequence[CasePair]) -> str:
    compared = [pair for pair in pairs if pair.outputs]
    same = sum(pair.identical for pair in compared)
    text = f"{len(pairs)} cases, {len(compared)} compared: {same} bit-equal in all outputs"
    far = [
        (output.distance.p99, output.distance.largest, output.one, pair.name)
        for pair in compared
        for output in pair.outputs
        if output.distance and not output.distance.identical
    ]
    if not far:
        return f"{text}."
    p99, largest, output_name, case = max(far)
    return f"{text}. Furthest: {output_name} of {case}, p99 {p99:.3g} and max {largest:.3g} ULP."
