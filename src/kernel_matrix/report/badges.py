"""The badges: of the report, of each platform, and of each lane, which turns grey when it has no result for long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from kernel_matrix.base.evidence import Evidence
from kernel_matrix.base.words import counted
from kernel_matrix.report.document import Document, Lane
from kernel_matrix.results.history import LaneHistory
from kernel_matrix.results.states import RED_FIRST, State

GREEN, BLUE, GREY, RED_COLOUR = "#1a7f37", "#2f6fde", "#6e7781", "#cf222e"
KNOWN: tuple[Evidence, ...] = ("ran", "emulated", "held", "told", "compiled", "lowered")

_WIDTH = 6.4  # of a character of the picture, in pixels
_MARGIN = 14


class Badge(NamedTuple):
    """A label, a message and a colour; as JSON it is an endpoint of shields.io."""

    label: str
    message: str
    color: str

    def endpoint(self) -> dict[str, object]:
        """Return what shields.io reads."""
        return {"schemaVersion": 1, **self._asdict()}

    @property
    def left(self) -> int:
        """The width of the label's part of the picture."""
        return round(_WIDTH * len(self.label) + _MARGIN)

    @property
    def right(self) -> int:
        """The width of the message's part of the picture."""
        return round(_WIDTH * len(self.message) + _MARGIN)


def of_document(document: Document) -> Badge:
    """Return the badge of the report.

    It is red if a cell is red. It is green if a cell ran that is not stale, and no lane is silent for too long.
    """
    return _of_lanes("kernel matrix", document.lanes, sum(lane.gone for lane in document.silent))


def of_platforms(document: Document) -> list[Badge]:
    """Return the badge of each platform, by the same rules as the badge of the whole report."""
    badges = []
    for platform in document.platforms:
        lanes = [lane for lane in document.lanes if lane.platform == platform.name]
        gone = sum(lane.gone for lane in document.silent if lane.lane.startswith(f"{platform.name}/"))
        badges.append(_of_lanes(platform.name, lanes, gone))
    return badges


def _of_lanes(label: str, lanes: Sequence[Lane], gone: int) -> Badge:
    """Return the badge of lanes; ``gone`` is how many of them are silent for too long."""
    cells, stale = sum(lane.cells for lane in lanes), sum(lane.stale for lane in lanes)
    by_evidence = _summed(lane.by_evidence for lane in lanes)
    if red := _red(_summed(lane.by_state for lane in lanes)):
        message, color = f"{red} of {counted(cells, 'cell')}", RED_COLOUR
    else:
        known = _known(by_evidence)
        message = f"{' · '.join(known)} of {counted(cells, 'cell')}" if known else "nothing known"
        ran = _current(by_evidence, _summed(lane.stale_by_evidence for lane in lanes), "ran")
        color = GREEN if ran and not gone else GREY
    if hidden := _emulated(sum(lane.emulated for lane in lanes), by_evidence):
        message += f" · {hidden}"
    message += f" · {stale} stale" if stale else ""
    message += f" · {counted(gone, 'lane')} silent" if gone else ""
    return Badge(label, message, color)


_Key = TypeVar("_Key", State, Evidence)


def _summed(counts: Iterable[Mapping[_Key, int]]) -> Mapping[_Key, int]:
    total: Counter[_Key] = Counter()
    for count in counts:
        total.update(count)
    return total


def of_lane(lane: Lane) -> tuple[str, str]:
    """Return message and colour of a lane that has results. Stale cells do not make it green or blue."""
    hidden = _emulated(lane.emulated, lane.by_evidence)
    marks = f"{f', {hidden}' if hidden else ''}{_stale(lane)}"
    if red := _red(lane.by_state):
        return f"{red} of {lane.cells}{marks}", RED_COLOUR
    known = _known(lane.by_evidence)
    color = GREY
    if any(_current(lane.by_evidence, lane.stale_by_evidence, level) for level in KNOWN):
        color = GREEN if _current(lane.by_evidence, lane.stale_by_evidence, "ran") else BLUE
    return f"{', '.join(known) or 'nothing known'} of {lane.cells}{marks}", color


def of_history(name: str, lane: LaneHistory, now: datetime, silent_days: float) -> Badge:
    """Return the badge of a lane: its last message, and how long ago that was. Too old a message makes it grey."""
    if lane.last_result is None:
        return Badge(name, "no result yet", GREY)
    days = (now - lane.last_result).total_seconds() / 86400
    if days > silent_days:
        return Badge(name, f"no result for {days:.0f} days", GREY)
    today = ", earlier today" if lane.silent_since else ""
    return Badge(name, f"{lane.message}{f', {days:.0f} days ago' if days >= 1 else today}", lane.color or GREY)


def _red(by_state: Mapping[State, int]) -> str:
    return ", ".join(f"{by_state[state]} {state}" for state in RED_FIRST if state in by_state)


def _known(by_evidence: Mapping[Evidence, int]) -> list[str]:
    return [f"{by_evidence[level]} {level}" for level in KNOWN if by_evidence.get(level)]


def _emulated(cells: int, by_evidence: Mapping[Evidence, int]) -> str:
    """Return how many cells were emulated besides those whose evidence says so; nothing for none."""
    hidden = cells - (told := by_evidence.get("emulated", 0))
    return f"{hidden} {'more ' if told else ''}emulated" if hidden else ""


def _stale(lane: Lane) -> str:
    return f", {lane.stale} stale" if lane.stale else ""


def _current(by_evidence: Mapping[Evidence, int], stale: Mapping[Evidence, int], level: Evidence) -> int:
    """Return how many cells of this evidence are not stale."""
    return by_evidence.get(level, 0) - stale.get(level, 0)
