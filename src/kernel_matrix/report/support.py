"""Document -> support.md: what runs where, operator by target, for a README, and the gaps between platforms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kernel_matrix.report.document import Document
from kernel_matrix.report.grid import Column, Square, squares_of
from kernel_matrix.report.markdown import cell, within
from kernel_matrix.results.states import RED, State

FILE = "support.md"
_WORKS: tuple[State, ...] = ("pass", "held", "told", "flaky", "fixed")
_NOTHING: tuple[State, ...] = ("missing", "unavailable", "excluded")
_MOST, _MOST_COLUMNS = 50, 24  # gaps that are listed, and targets that are a column each

Squares = Mapping[tuple[Column, str], Square]


def support(document: Document) -> str:
    """Return the table and the gaps in Markdown. Of several toolchains on a target what is red shows, else the best.

    Where there are too many targets for a table, a platform is one column.
    """
    lanes = {(one.platform, one.target, one.toolchain): Column(one.platform, one.target, "") for one in document.cells}
    if len(set(lanes.values())) > _MOST_COLUMNS:
        lanes = {lane: Column(lane[0], "", "") for lane in lanes}
    squares = squares_of(document.cells, {Column(*lane): column for lane, column in lanes.items()})
    every = list(dict.fromkeys(lanes.values()))
    known = {column for (column, _), square in squares.items() if square.state not in _NOTHING}
    tried = [column for column in every if column in known]
    ops = list(dict.fromkeys(op for _, op in squares))
    lines = [
        f"| operator | {' | '.join(map(_title, tried))} |",
        f"| --- |{' --- |' * len(tried)}",
        *(f"| {cell(op)} | {' | '.join(_text(squares.get((one, op))) for one in tried)} |" for op in ops),
        f"| **ended well** | {' | '.join(_share(squares, one, ops) for one in tried)} |",
    ]
    if without := [_title(column) for column in every if column not in known]:
        lines += ["", f"No result yet: {', '.join(without)}."]
    gaps = list(_gaps(squares, tried, ops))
    if gaps:
        lines += ["", "Ended well on one platform and not on another:", "", *gaps[:_MOST]]
    if len(gaps) > _MOST:
        lines += [f"- {len(gaps) - _MOST} operators more"]
    return within("\n".join([*lines, ""]))


def _title(column: Column) -> str:
    return cell(f"{column.platform} {column.target}")


def _text(square: Square | None) -> str:
    if square is None:
        return ""
    words = [f"**{square.state}**" if square.state in RED else square.state]
    words += ["emulated"] if square.emulated and square.state in _WORKS else []
    return ", ".join([*words, *(["stale"] if square.stale else [])])


def _share(squares: Squares, column: Column, ops: Sequence[str]) -> str:
    """Return how many operators ended well, of those that are not left out there."""
    states = [squares[column, op].state for op in ops if (column, op) in squares]
    counted = [state for state in states if state != "excluded"]
    return f"{sum(state in _WORKS for state in counted)} of {len(counted)}"


def _gaps(squares: Squares, columns: Sequence[Column], ops: Sequence[str]) -> Iterator[str]:
    """Yield the operators that ended well on some platform, and on another one neither there nor by being left out."""
    for op in ops:
        by_platform: dict[str, dict[State, list[str]]] = {}
        for column in columns:
            if (column, op) in squares:
                states = by_platform.setdefault(column.platform, {})
                states.setdefault(squares[column, op].state, []).append(column.target)
        works = [name for name, states in by_platform.items() if any(state in _WORKS for state in states)]
        others = {
            name: states
            for name, states in by_platform.items()
            if name not in works and any(state != "excluded" for state in states)
        }
        if works and others:
            texts = [
                f"{state} on {cell(name)}{_in_brackets(targets)}"
                for name, states in others.items()
                for state, targets in states.items()
            ]
            yield f"- {cell(op)} ended well on {cell(', '.join(works))}; {'; '.join(texts)}"


def _in_brackets(targets: Sequence[str]) -> str:
    return f" ({cell(', '.join(targets))})" if any(targets) else ""
