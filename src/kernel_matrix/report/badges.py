"""A badge per lane, which turns grey when its machine has said nothing for too long."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kernel_matrix.report.document import RED_FIRST, Document
from kernel_matrix.results.history import LaneHistory

GREEN, BLUE, GREY, RED_COLOUR = "#1a7f37", "#2f6fde", "#6e7781", "#cf222e"


def current(group: Document) -> tuple[str, str]:
    """Message and colour of a lane that has results: an entry of the document's overview."""
    counts, total = group["by_state"], group["cells"]
    if red := [f"{counts[state]} {state}" for state in RED_FIRST if state in counts]:
        return f"{', '.join(red)} of {total}", RED_COLOUR
    evidence = group["by_evidence"]
    levels = [level for level in ("ran", "emulated", "compiled", "lowered") if evidence.get(level)]
    known = [f"{evidence[level]} {level}" for level in levels]
    colour = GREEN if evidence.get("ran") else BLUE if known else GREY
    return f"{', '.join(known) or 'nothing known'} of {total}", colour


def badge(name: str, lane: LaneHistory, now: datetime, silent_days: float) -> dict[str, Any]:
    """What the lane last said, how long ago if not now, and grey when that is too long ago or never was."""
    if lane.last_result is None:
        message, color = "no result yet", GREY
    else:
        days = (now - lane.last_result).total_seconds() / 86400
        message, color = lane.message, lane.color or GREY
        if days > silent_days:
            message, color = f"no result for {days:.0f} days", GREY
        elif lane.silent_since:
            message += f", {days:.0f} days ago" if days >= 1 else ", earlier today"
    return {"schemaVersion": 1, "label": name, "message": message, "color": color}


def silent(lanes: Mapping[str, LaneHistory], planned: set[str], now: datetime, silent_days: float) -> list[Document]:
    """The planned lanes without a result in this run, the longest silent first."""
    said = []
    for name in sorted(planned):
        lane = lanes.get(name, LaneHistory())
        if lane.silent_since is None:
            continue
        since = lane.last_result or lane.silent_since
        days = (now - since).total_seconds() / 86400
        said.append(
            {
                "lane": name,
                "last_result": lane.last_result.isoformat() if lane.last_result else None,
                "silent_since": lane.silent_since.isoformat(),
                "days": round(days, 1),
                "gone": lane.last_result is not None and days > silent_days,
            }
        )
    return sorted(said, key=lambda lane: (lane["last_result"] is None, -lane["days"]))
