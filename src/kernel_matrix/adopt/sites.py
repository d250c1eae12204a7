"""The sites of two runs, read for what is said about them: cells, lanes, and whose platforms they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pydantic import Field, ValidationError

from kernel_matrix.base.errors import UserError, first_fault
from kernel_matrix.base.models import Lenient
from kernel_matrix.report.document import FILE, CellOutline, Outline, PlatformEntry
from kernel_matrix.report.runs import Side, read_site
from kernel_matrix.results.states import State


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCell(CellOutline):
    """A cell with the number of its cases that were asked for."""

    planned: int = 0


class LaneOutline(Lenient):
    """A lane: its worst state, and its cells by state."""

    platform: str
    target: str
    toolchain: str
    state: State
    by_state: dict[State, int] = Field(default_factory=dict)

    @property
    def id(self) -> str:
        """``PLATFORM/TARGET/TOOLCHAIN``."""
        return f"{self.platform}/{self.target}/{self.toolchain}"


class Report(Outline):
    """The part of a report that a comment or a message speaks of."""

    cells: tuple[PlannedCell, ...]
    platforms: tuple[PlatformEntry, ...] = ()
    lanes: tuple[LaneOutline, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Site:
    """The report of one run, and the same as a side of a difference."""

    report: Report
    side: Side

    @cached_property
    def cells(self) -> Mapping[str, PlannedCell]:
        """The cells of the report by their ids."""
        return {cell.id: cell for cell in self.report.cells}


def read(folder: Path) -> Site | None:
    """Read a site; None if there is none.

    Raises:
        UserError: its report cannot be read, or is of another form.
    """
    if not (folder / FILE).is_file():
        return None
    side = read_site(folder)
    try:
        report = Report.model_validate_json((folder / FILE).read_bytes())
    except ValidationError as error:
        raise UserError(f"{folder / FILE}: {first_fault(error)}. Name the site of a run.") from None
    return Site(report, replace(side, outline=report))
