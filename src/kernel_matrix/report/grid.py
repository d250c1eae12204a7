"""Document -> a small picture of all cells as SVG, operator x lane, for pages that run no script, such as a README."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Literal, NamedTuple

from kernel_matrix.base.evidence import EVIDENCE, Evidence
from kernel_matrix.report.document import Cell, Document
from kernel_matrix.report.sentences import MEANING, headline
from kernel_matrix.results.states import RED, STATES, TRIED, State

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
MOST_COLUMNS = 112  # with more lanes, those with few operators are put together, then all of a platform's toolchain

_STEP, _SIDE = 16, 14  # of the squares, in pixels
_LABEL = 6.2  # the width of a character of the labels
_SIGNS: dict[State, str] = {
    "pass": "✓",
    "held": "h",
    "told": "t",
    "compiled": "c",
    "lowered": "s",
    "known": "k",
    "flaky": "~",
    "fixed": "!",
    "fail": "✗",
    "error": "E",
    "missing": "?",
    "unavailable": "–",
    "excluded": "·",
}
# Of several cells: what is red, and else what is known best, as on the page. An absent device hides no pass.
_SHOWN: tuple[State, ...] = (
    *(state for state in STATES if state in RED),
    *("pass", "held", "flaky", "told", "compiled", "lowered", "known", "unavailable", "excluded"),
)
_OUTLINED = ("unavailable", "excluded")
_DARK_SIGN = ("lowered",)  # the states whose colour is light
_INK = {"light": ("#1f2328", "#59636e", "#d1d9e0"), "dark": ("#e6edf3", "#9198a1", "#3d444d")}


class Column(NamedTuple):
    """A lane, or several lanes of one toolchain on one platform, whose target is then a number or nothing."""

    platform: str
    target: str
    toolchain: str


class Square(NamedTuple):
    """The state that is shown of the cells at one place, the most evidence of a cell in it, and what all are."""

    state: State
    evidence: Evidence
    emulated: bool
    stale: bool
    cells: int


class Places(NamedTuple):
    """The columns, the operators, and what stands at each place: the same for both colour schemes."""

    columns: list[Column]
    ops: list[str]
    squares: dict[tuple[Column, str], Square]


def places_of(document: Document) -> Places:
    """Return where each cell stands."""
    column_of = _columns(document.cells)
    ops = list(dict.fromkeys(f"{cell.op}.{cell.direction}" for cell in document.cells))
    return Places(list(dict.fromkeys(column_of.values())), ops, squares_of(document.cells, column_of))


def grid(document: Document, theme: Theme, places: Places | None = None) -> str:
    """Return the picture for one of the two colour schemes; ``places`` belong to the document."""
    columns, ops, squares = places or places_of(document)
    shown = columns[:MOST_COLUMNS]
    left = 12 + _LABEL * max((len(op) for op in ops), default=0)
    top = 10 + _LABEL * max((len(_name(column)) for column in shown), default=0)
    legend, rows = _legend(document, theme, left)
    width = max(left + _STEP * len(shown) + 12, 640)
    height = top + _STEP * len(ops) + 16 + 18 * rows + (18 if len(columns) > len(shown) else 0)
    parts = [
        _HEAD.format(width=f"{width:.0f}", height=f"{height:.0f}"),
        f'<title id="title">{escape(document.run.package)}: every operator on every lane</title>',
        f'<desc id="desc">{escape(headline(document))}</desc>',
        _STRIPES,
        *_symbols(theme),
        *_labels(shown, ops, theme, left, top),
        *_drawn(shown, ops, squares, left, top),
        f'<g transform="translate(0 {top + _STEP * len(ops) + 22:.0f})">',
        *legend,
        *_rest(len(columns) - len(shown), theme, left, 18 * rows),
        "</g>",
        "</svg>\n",
    ]
    return "\n".join(parts)


_HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
    'role="img" aria-labelledby="title desc" '
    'font-family="ui-sans-serif,system-ui,Segoe UI,Helvetica,Arial,sans-serif" font-size="10">'
)
_STRIPES = (
    '<pattern id="emulated" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="3" height="6" fill="#ffffff" fill-opacity="0.25"/></pattern>'
)


def _columns(cells: Iterable[Cell]) -> dict[Column, Column]:
    """Return the column of each lane, in the order of the lanes.

    Where there are too many lanes, those with less than half of the operators are one column for each toolchain on a
    platform: such targets are only compiled, with few kernels. One that would be alone there keeps its name. Where that
    is not enough, all lanes of a toolchain on a platform are one column.
    """
    operators = Counter(_lane(cell) for cell in cells)
    if len(operators) <= MOST_COLUMNS:
        return {lane: lane for lane in operators}
    few = [lane for lane, count in operators.items() if 2 * count < max(operators.values())]
    together = Counter((lane.platform, lane.toolchain) for lane in few)
    column_of = {lane: lane for lane in operators} | {
        lane: lane._replace(target=f"{together[lane.platform, lane.toolchain]} more")
        for lane in few
        if together[lane.platform, lane.toolchain] > 1
    }
    if len(set(column_of.values())) <= MOST_COLUMNS:
        return column_of
    return {lane: lane._replace(target="") for lane in operators}


def _lane(cell: Cell) -> Column:
    return Column(cell.platform, cell.target, cell.toolchain)


def squares_of(cells: Iterable[Cell], column_of: Mapping[Column, Column]) -> dict[tuple[Column, str], Square]:
    """Return what stands at each place: a column and an operator. ``column_of`` has the column of each lane."""
    groups: dict[tuple[Column, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((column_of[_lane(cell)], f"{cell.op}.{cell.direction}"), []).append(cell)
    return {place: _square(group) for place, group in groups.items()}


def _square(cells: Sequence[Cell]) -> Square:
    state = min((cell.state for cell in cells), key=_SHOWN.index)
    shown = [cell for cell in cells if cell.state == state]
    return Square(
        state=state,
        evidence=max((cell.evidence for cell in shown), key=EVIDENCE.index),
        emulated=all(cell.emulated for cell in shown),
        stale=all(cell.stale for cell in shown),
        cells=len(cells),
    )


def _name(column: Column) -> str:
    return " ".join(filter(None, column))


def _labels(columns: Sequence[Column], ops: Sequence[str], theme: Theme, left: float, top: float) -> Iterator[str]:
    ink, dim, line = _INK[theme]
    for row, op in enumerate(ops):
        yield (
            f'<text x="{left - 6:.0f}" y="{top + _STEP * row + 11:.0f}" text-anchor="end" fill="{ink}">'
            f"{escape(op)}</text>"
        )
    for index, column in enumerate(columns):
        x = left + _STEP * index
        if index and column.platform != columns[index - 1].platform:
            yield f'<path d="M{x - 1:.0f} 4V{top + _STEP * len(ops):.0f}" stroke="{line}"/>'
        yield (
            f'<text transform="translate({x + 10.5:.1f} {top - 5:.0f}) rotate(-90)" fill="{dim}">'
            f"{escape(_name(column))}</text>"
        )


def _drawn(
    columns: Sequence[Column],
    ops: Sequence[str],
    squares: dict[tuple[Column, str], Square],
    left: float,
    top: float,
) -> Iterator[str]:
    for index, column in enumerate(columns):
        for row, op in enumerate(ops):
            x, y = left + _STEP * index, top + _STEP * row
            square = squares.get((column, op))
            if square:
                count = f" ({square.cells} cells)" if square.cells > 1 else ""
                words = dict.fromkeys([square.state, square.evidence, *(["emulated"] if square.emulated else [])])
                stale = ", stale" if square.stale else ""
                title = f"{op} on {_name(column)}{count}: {', '.join(words)}{stale}"
                yield f"{_use(square, x, y)[:-2]}><title>{escape(title)}</title></use>"


def _use(square: Square, x: float, y: float) -> str:
    """Return a square at a place."""
    emulated = "-emulated" if square.emulated else ""
    return f'<use href="#{square.state}{emulated}{"-stale" if square.stale else ""}" x="{x:.0f}" y="{y:.0f}"/>'


def _symbols(theme: Theme) -> Iterator[str]:
    """Yield what each square looks like: its colour, its sign, and a line through it if it is stale."""
    ink, dim, faint = _INK[theme]
    stripes = f'<rect width="{_SIDE}" height="{_SIDE}" rx="3" fill="url(#emulated)"/>'
    for state in STATES:
        for emulated in ("", "-emulated") if state in TRIED else ("",):
            fill = f'fill="{MEANING[state][0]}"'
            text, line = ("#0b2a5b" if state in _DARK_SIGN else "#ffffff"), "#ffffff"
            if state in _OUTLINED:
                fill, text, line = f'fill="none" stroke="{faint}"', dim, ink
            drawn = (
                f'<rect width="{_SIDE}" height="{_SIDE}" rx="3" {fill}/>{stripes if emulated else ""}'
                f'<text x="7" y="10.5" text-anchor="middle" font-weight="700" fill="{text}">{_SIGNS[state]}</text>'
            )
            yield f'<symbol id="{state}{emulated}" overflow="visible">{drawn}</symbol>'
            stale = f'<path d="M1 13L13 1" stroke="{line}" stroke-width="2"/>'
            yield f'<symbol id="{state}{emulated}-stale" overflow="visible">{drawn}{stale}</symbol>'


def _legend(document: Document, theme: Theme, left: float) -> tuple[list[str], int]:
    """Return the signs with the number of their cells, and how many lines they take."""
    counted = Counter((cell.state, cell.emulated > 0) for cell in document.cells)
    parts, x, row = [], left, 0
    for state in reversed(STATES):
        for emulated in (False, True):
            if count := counted[state, emulated]:
                words = f"{count} of {document.run.cells} {state}{' (emulated)' if emulated else ''}"
                width = 24 + _LABEL * len(words)
                if x > left and x + width > 640:
                    x, row = left, row + 1
                sign = _use(Square(state, "ran", emulated, False, 1), x, 18 * row - 11)
                parts.append(f'{sign}<text x="{x + 19:.0f}" y="{18 * row}" fill="{_INK[theme][0]}">{words}</text>')
                x += width
    return parts, row + 1


def _rest(count: int, theme: Theme, left: float, y: float) -> Iterator[str]:
    if count > 0:
        words = f"and {count} more toolchains of platforms"
        yield f'<text x="{left:.0f}" y="{y:.0f}" fill="{_INK[theme][1]}">{words}</text>'
