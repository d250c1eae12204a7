"""The candidates of `tests/tools/verify/fixtures`: what the first lines of each file say. Nothing here imports one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from loops import at_least

FIXTURES = Path(__file__).parents[2] / "tests" / "tools" / "verify" / "fixtures"
FOLDERS = {"right": 25, "wrong": 60, "hacks": 45, "undecided": 5}  # and how many files each has at least
_LINE = re.compile(r"# (against|kind|needs|expect|options|from|missed): (.+)")


@dataclass(frozen=True)
class Candidate:
    """One file: the task that it answers, its kind, the device that shows it, and what the verdict must be."""

    name: str
    path: Path
    task: Path
    kind: str
    needs: str
    expect: str
    options: tuple[str, ...]
    missed: str  # the reason why the verdict does not see it, or nothing

    @property
    def line(self) -> str:
        """Return the line that asks the command for a verdict."""
        return json.dumps({"id": self.name, "candidate": str(self.path), "against": str(self.task)}) + "\n"

    @property
    def allowed(self) -> set[str]:
        """Return the verdicts that are right for this file on a machine that has the device."""
        return {
            "right": {"right"},
            "red": {"wrong", "hack"},
            "wrong": {"wrong"},
            "hack": {"hack"},
            "not decided": {"not decided"},
            "not right": {"wrong", "hack", "not decided"},
        }[self.expect]


_EXPECTED = {"right": "right", "wrong": "red", "hacks": "red", "undecided": "not decided"}


def candidates(*folders: str) -> list[Candidate]:
    """Return the candidates of these folders, or of all."""
    paths = [
        path for folder in folders or FOLDERS for path in at_least(FOLDERS[folder], (FIXTURES / folder).glob("*.py"))
    ]
    return [_read(path) for path in sorted(paths)]


def _read(path: Path) -> Candidate:
    said = dict(match.groups() for line in path.read_text().splitlines()[:10] if (match := _LINE.fullmatch(line)))
    task = FIXTURES / "tasks" / f"{said['against']}.py"
    assert task.is_file(), f"{path} is against a task that is not there"
    folder = path.parent.name
    return Candidate(
        f"{folder}/{path.stem}",
        path,
        task,
        said["kind"],
        said["needs"],
        said.get("expect", _EXPECTED[folder]),
        tuple(said.get("options", "").split()),
        said.get("missed", ""),
    )
