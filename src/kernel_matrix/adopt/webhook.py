"""Two runs -> the message for a webhook: which lanes turned red, and which came back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypedDict

from kernel_matrix.adopt.sites import LaneOutline, Report
from kernel_matrix.base.words import counted
from kernel_matrix.report.difference import WORKS
from kernel_matrix.results.states import RED

_MOST_LINES = 20  # of the text: a chat shows no more at once
_ABSENT = "not planned"
_TITLES = {"red": "turned red", "back": "came back", "gone": "was red and has no result now"}


class Turn(TypedDict):
    """A lane that turned red (``red``), works again (``back``), or was red and has no result now (``gone``)."""

    what: Literal["red", "back", "gone"]
    lane: str
    before: str
    now: str


class Message(TypedDict):
    """The one document that a webhook gets. Receivers of Slack's form show ``text``."""

    text: str
    page: str
    lanes: list[Turn]


def message(before: Report, now: Report, page: str) -> Message | None:
    """Return the message about two runs; None if no lane turned."""
    turns = list(_turns(before, now))
    return Message(text=_text(turns, page), page=page, lanes=turns) if turns else None


def _turns(before: Report, now: Report) -> Iterator[Turn]:
    earlier, present = ({lane.id: lane for lane in report.lanes} for report in (before, now))
    for name in dict.fromkeys([*present, *earlier]):
        former, lane = earlier.get(name), present.get(name)
        states = former.state if former else _ABSENT, lane.state if lane else _ABSENT
        was_red, is_red = (state in RED for state in states)
        if is_red and not was_red:
            yield Turn(what="red", lane=name, before=states[0], now=states[1])
        elif was_red and not is_red:
            yield Turn(what="back" if _works(lane) else "gone", lane=name, before=states[0], now=states[1])


def _works(lane: LaneOutline | None) -> bool:
    """Return whether a cell of a lane has a result: the lane's worst state may be the state of a cell without one."""
    return lane is not None and any(count and state in (*WORKS, "known") for state, count in lane.by_state.items())


def _text(turns: list[Turn], page: str) -> str:
    counts = [(sum(turn["what"] == what for turn in turns), title) for what, title in _TITLES.items()]
    first = ", ".join(f"{counted(count, 'lane')} {title}" for count, title in counts if count)
    lines = [f"{turn['what']}: {turn['lane']}: {turn['before']} → {turn['now']}" for turn in turns[:_MOST_LINES]]
    more = [f"and {len(turns) - _MOST_LINES} more"] if len(turns) > _MOST_LINES else []
    return "\n".join([f"kernel-matrix: {first}", *map(_escaped, lines), *more, *([page] if page else [])])


def _escaped(text: str) -> str:
    """Return a text that is no mention and no link where Slack shows it."""
    return "".join(
        {"&": "&amp;", "<": "&lt;", ">": "&gt;"}.get(char, char) if char.isprintable() else " " for char in text[:400]
    )
