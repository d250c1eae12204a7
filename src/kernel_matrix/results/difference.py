"""Two reports -> what differs: which cells became red, which no longer are, and what else changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from kernel_matrix.base.errors import UserError
from kernel_matrix.results.compare import RED


@dataclass(frozen=True)
class Change:
    """A cell before and after, as ``state (evidence)``."""

    cell: str
    before: str
    after: str
    reason: str
    repeat: str


@dataclass(frozen=True)
class Difference:
    """All changes of the cells that both reports have, and how many only one of them has."""

    newly_red: tuple[Change, ...]
    no_longer_red: tuple[Change, ...]
    other: tuple[Change, ...]
    still_red: int
    same: int
    new: tuple[Change, ...]
    not_run_here: int
    base: str  # which run it is compared with


class _Cell(BaseModel):
    model_config = ConfigDict(extra="ignore")
    id: str
    state: str
    evidence: str


class _Run(BaseModel):
    model_config = ConfigDict(extra="ignore")
    tier: str
    created: str
    commits: list[str] = []


class _Compat(BaseModel):
    model_config = ConfigDict(extra="ignore")
    run: _Run
    cells: list[_Cell]


def read(folder: Path) -> _Compat:
    """The compat.json of an earlier site.

    Raises:
        UserError: it is not there, or is not one.
    """
    path = folder / "compat.json"
    try:
        return _Compat.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(
            f"--against {folder}: compat.json: {error.strerror}. Name the site of an earlier run."
        ) from None
    except ValidationError as error:
        raise UserError(f"{path}: {error.errors()[0]['msg']}. Name the site of an earlier run.") from None


def difference(before: _Compat, cells: Iterable[Mapping[str, Any]]) -> Difference:
    """Compare the cells of a document with an earlier report. A pure function."""
    old = {cell.id: cell for cell in before.cells}
    groups: dict[str, list[Change]] = {"newly_red": [], "no_longer_red": [], "other": [], "new": []}
    still_red = same = 0
    seen = set()
    for cell in cells:
        seen.add(cell["id"])
        base = old.get(cell["id"])
        after = _words(cell["state"], cell["evidence"])
        was = _words(base.state, base.evidence) if base else "not planned"
        change = Change(cell["id"], was, after, str(cell["reason"]), str(cell["repeat"]))
        if base is None:
            groups["newly_red" if cell["state"] in RED else "new"].append(change)
        elif (cell["state"] in RED) != (base.state in RED):
            groups["newly_red" if cell["state"] in RED else "no_longer_red"].append(change)
        elif was != after:
            groups["other"].append(change)
        elif cell["state"] in RED:
            still_red += 1
        else:
            same += 1
    run = before.run
    base_text = f"{', '.join(run.commits) or 'an unknown commit'} ({run.tier} tier, {run.created})"
    return Difference(
        **{name: tuple(changes) for name, changes in groups.items()},
        still_red=still_red,
        same=same,
        not_run_here=len(old.keys() - seen),
        base=base_text,
    )


def _words(state: str, evidence: str) -> str:
    return f"{state} ({evidence})"
