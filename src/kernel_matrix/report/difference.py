"""Two reports -> Difference: the cells that became red, those that no longer are, and other transitions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from kernel_matrix.base.errors import UserError
from kernel_matrix.report.document import FILE, Cell, CellOutline, Document, Outline
from kernel_matrix.results.compare import RED


@dataclass(frozen=True)
class Transition:
    """A cell in an earlier report and now, each as ``state (evidence)``."""

    cell: str
    before: str
    after: str
    reason: str
    repeat: str


@dataclass(frozen=True)
class Difference:
    """All transitions of the cells that both reports have, and how many cells only one of them has."""

    newly_red: tuple[Transition, ...]
    no_longer_red: tuple[Transition, ...]
    other: tuple[Transition, ...]
    still_red: int
    same: int
    new: tuple[Transition, ...]
    not_run_here: int
    base: str  # the earlier report, in words


def read(folder: Path) -> Outline:
    """Return the part of an earlier run's report that is compared. The report may be of an earlier version.

    Raises:
        UserError: the folder has no compat.json, or it is none.
    """
    path = folder / FILE
    try:
        return Outline.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"--against {folder}: {FILE}: {error.strerror}. Name the site of an earlier run.") from None
    except ValidationError as error:
        raise UserError(f"{path}: {error.errors()[0]['msg']}. Name the site of an earlier run.") from None


def difference(before: Outline, document: Document) -> Difference:
    """Compare the cells of a document with those of an earlier report. A pure function."""
    earlier = {cell.id: cell for cell in before.cells}
    groups: dict[str, list[Transition]] = {
        name: [] for name in ("newly_red", "no_longer_red", "other", "new", "still_red", "same")
    }
    for cell in document.cells:
        groups[_group(earlier.get(cell.id), cell)].append(_transition(earlier.get(cell.id), cell))
    run = before.run
    return Difference(
        newly_red=tuple(groups["newly_red"]),
        no_longer_red=tuple(groups["no_longer_red"]),
        other=tuple(groups["other"]),
        still_red=len(groups["still_red"]),
        same=len(groups["same"]),
        new=tuple(groups["new"]),
        not_run_here=len(earlier.keys() - {cell.id for cell in document.cells}),
        base=f"{', '.join(run.commits) or 'an unknown commit'} ({run.tier} tier, {run.created})",
    )


def _group(before: CellOutline | None, now: CellOutline) -> str:
    """Return which of the groups a cell belongs to."""
    red = now.state in RED
    if before is None:
        return "newly_red" if red else "new"
    if red != (before.state in RED):
        return "newly_red" if red else "no_longer_red"
    if _words(before) != _words(now):
        return "other"
    return "still_red" if red else "same"


def _transition(before: CellOutline | None, now: Cell) -> Transition:
    reason = "; ".join(text for text in (now.reason, now.stale and f"stale: {now.stale}") if text)
    return Transition(now.id, _words(before) if before else "not planned", _words(now), reason, now.repeat)


def _words(cell: CellOutline) -> str:
    return f"{cell.state} ({cell.evidence}{', stale' if cell.stale else ''})"
