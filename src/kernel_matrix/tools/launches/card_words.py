"""Say what launches did on a GPU of this machine: in lines for a terminal, and as a table of an emulator beside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kernel_matrix.tools.launches.numbers import Beside
from kernel_matrix.tools.launches.recording import Compiled, Recording


def lines(recording: Recording) -> Iterator[str]:
    """Yield what each launch did on the GPU, a line for each."""
    ran = [one for one in recording.compiled if one.card is not None]
    kernels = {launch.identity: launch for launch in recording.launches}
    for one in ran:
        launch = kernels[one.identity]
        config = f" configuration {launch.tuned[1] + 1}" if launch.tuned else ""
        constants = ", ".join(f"{name}={value}" for name, value in launch.constants.items())
        yield f"  {launch.kernel}{config} ({constants}; grid {launch.grid}): {said(one)}"


def said(one: Compiled) -> str:
    """Return what a launch did on the GPU."""
    return "; ".join(_said(one))


def _said(one: Compiled) -> Iterator[str]:
    card = one.card or {}
    yield "RED: " + "; ".join(one.findings) if one.findings else "the same in all runs"
    if note := card.get("varies"):
        yield note
    if one.numbers is not None:
        error = f"its error is {_share(one.numbers.metrics):.0%} of its limit"
        yield "RED: " + "; ".join(one.numbers.faults) if one.numbers.faults else error
    elif one.without:
        yield f"not compared: {one.without}"
    yield f"{one.figures.get('registers', 0):g} registers"
    if "microseconds" in card:
        yield f"{card['microseconds']:.1f} µs (least {card['microseconds.least']:.1f})"
    if "order" in card:
        yield str(card["order"])
    if one.beside is not None:
        yield f"emulator: {one.beside.text}"


def _share(metrics: Mapping[str, float]) -> float:
    """Return the largest error over its limit."""
    names = [(name, name.replace(".", ".limit_")) for name in metrics if name.endswith((".max_abs", ".rel_fro"))]
    pairs = [(metrics[name], metrics[limit]) for name, limit in names if limit in metrics]
    return max((error / limit for error, limit in pairs if limit), default=0.0)


def table(recordings: Iterable[Recording]) -> Iterator[str]:
    """Yield a table in Markdown: a row for each kernel, and one for each kind of instruction."""
    rows, kinds = list[str](), defaultdict[str, list[Beside]](list)
    for recording in recordings:
        kernels = {launch.identity: launch for launch in recording.launches}
        for one in recording.compiled:
            if one.beside is None:
                continue
            found, launch = one.beside, kernels[one.identity]
            figures = (found.elements, found.different, f"{found.ulps:g}", f"{found.share:.2g}")
            numbers = " | ".join("-" if found.reason else str(figure) for figure in figures)
            rows.append(f"| {launch.kernel} | {numbers} | {found.reason or ' '.join(found.instructions)} |")
            for kind in found.instructions or ("none of these",):
                kinds[kind].append(found)
    if not rows:
        return
    yield "| kernel | elements | different | ulp | of the largest | instructions that a GPU may round in its own way |"
    yield from ("| --- | --- | --- | --- | --- | --- |", *rows, "")
    yield "| instruction | launches with it | of these different | largest ulp | of the largest |"
    yield "| --- | --- | --- | --- | --- |"
    yield from (_kind(kind, found) for kind, found in sorted(kinds.items()))


def _kind(kind: str, found: Sequence[Beside]) -> str:
    compared = [one for one in found if not one.reason]
    different = [one for one in compared if one.different]
    most = max((one.ulps for one in compared), default=0)
    of_largest = max((one.share for one in compared), default=0)
    return f"| {kind} | {len(compared)} | {len(different)} | {most:g} | {of_largest:.2g} |"
