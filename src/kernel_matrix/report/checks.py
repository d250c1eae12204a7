"""The part of the report about checks, such as sanitizers: the models, and their files.

A check runs kernels for another reason than to compare their numbers. It writes one file of this form, into ``checks``
of the build folder, and a package may keep such files in the folder ``package.checks``. No check makes a cell green.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import write_atomically
from kernel_matrix.base.models import Strict
from kernel_matrix.store.documents import documents

FOLDER = "checks"  # of the build folder
_Explanation = TypeVar("_Explanation", bound=BaseModel)


class CheckedCell(Strict):
    """The cases of a cell under a check, counted."""

    cell: str
    tried: int = Field(description="Cases that came to an end.")
    found: int = Field(description="Cases of these with a finding that nobody has explained.")
    explained: int = Field(description="Cases of these whose findings are all explained.")
    unfinished: int = Field(description="Cases that came to no end.")
    untried: int = Field(default=0, description="Cases before which the time of the check was over.")

    def line(self, right: str, wrong: str) -> str:
        """Return the counts as a line for a terminal; the words say of a case that nothing, or something, was found."""
        counts = {wrong: self.found, "explained": self.explained, "without an end": self.unfinished}
        more = [f"{count} {word}" for word, count in {**counts, "not tried": self.untried}.items() if count]
        return f"  {self.cell}: {', '.join([f'{self.tried - self.found - self.explained} {right}', *more])}"


class Finding(Strict):
    """A fault that a check found in a case."""

    case: str
    kernel: str = ""
    line: str = Field(default="", description="FILE:LINE, where the code has lines.")
    text: str
    explained: str = Field(default="", description="Why it is no fault; empty where nobody has found that out.")


class Check(Strict):
    """One check on one machine."""

    name: str
    program: str = Field(description="The program and its version.")
    sees: str
    machine: str
    commit: str
    when: str = Field(description="When it began, UTC.")
    note: str = Field(default="", description="What else a reader must know: the budget, the seed.")
    cells: tuple[CheckedCell, ...]
    findings: tuple[Finding, ...] = ()
    unfinished: tuple[str, ...] = Field(default=(), description="Cases that came to no end, and why.")

    @property
    def is_red(self) -> bool:
        """True if something was found that nobody has explained, or a case came to no end."""
        return any(cell.found or cell.unfinished for cell in self.cells)


def cells_of(
    cases: Iterable[str],
    findings: Collection[Finding],
    unfinished: Collection[str] = (),
    untried: Collection[str] = (),
) -> tuple[CheckedCell, ...]:
    """Return the counts of each cell of some cases; ``unfinished`` and ``untried`` are ids of some of the cases."""
    by_cell: dict[str, list[str]] = {}
    for case in cases:
        by_cell.setdefault("/".join(case.split("/")[:4]), []).append(case)
    found = {one.case for one in findings}
    not_explained = {one.case for one in findings if not one.explained}
    return tuple(
        CheckedCell(
            cell=cell,
            tried=sum(case not in unfinished and case not in untried for case in of_cell),
            found=sum(case in not_explained for case in of_cell),
            explained=sum(case in found - not_explained for case in of_cell),
            unfinished=sum(case in unfinished for case in of_cell),
            untried=sum(case in untried for case in of_cell),
        )
        for cell, of_cell in by_cell.items()
    )


def write(check: Check, build: Path, name: str = "") -> Path:
    """Write the file of a check into a build folder, in place of an earlier one, and return its path."""
    file = build / FOLDER / f"{name or check.name}.json"
    write_atomically(file, check.model_dump_json(indent=1) + "\n")
    return file


def read(*folders: Path, name: str = "*") -> tuple[Check, ...]:
    """Return the checks of all files of a name below some folders, the oldest first; a folder need not be there.

    Raises:
        UserError: a file has another form.
    """
    checks = []
    for file, text in documents(*folders, name=name):
        try:
            checks.append(Check.model_validate_json(text))
        except ValidationError as error:
            raise UserError(f"{file}: it is no check's file: {' '.join(str(error).split())[:200]}") from None
    return tuple(sorted(checks, key=lambda check: check.when))


def explanations(root: Path, probes: str | None, name: str, model: type[_Explanation]) -> tuple[_Explanation, ...]:
    """Return the findings that somebody has explained, from a file in the folder of the package's probes, if any.

    Raises:
        UserError: the file cannot be used.
    """
    file = root / (probes or "") / name
    if not probes or not file.exists():
        return ()
    try:
        entries = YAML(typ="safe").load(file.read_text(encoding="utf-8"))
        return tuple(map(model.model_validate, entries))
    except (OSError, UnicodeDecodeError, YAMLError, TypeError, ValidationError) as error:
        raise UserError(f"{file}: {' '.join(str(error).split())}") from None
