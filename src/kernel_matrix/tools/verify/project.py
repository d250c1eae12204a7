"""Put a verdict onto the page of the project that is here, as a check: no check makes a cell green."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernel_matrix.base.git import commit
from kernel_matrix.report import checks
from kernel_matrix.report.checks import Check, CheckedCell, Finding
from kernel_matrix.tools.verify.verdict import HACK, UNDECIDED, UNUSABLE, WRONG

_NAME = "verify"
_SEES = "a kernel that nobody trusts: secret inputs, other sizes and values, its process, in a sandbox"
_LONGEST = 2000  # characters of a reason


def own_cell(told: Mapping[str, Any], named: str, task: str) -> str:
    """Return the cell of a candidate that belongs to none of the project: its device, its name, its task."""
    parts = (str(told.get("device") or "unknown"), *(Path(one.rpartition(":")[2]).stem for one in (named, task)))
    return "/".join(("verify", *(re.sub(r"[^\w.-]", "-", part) or "unnamed" for part in parts)))


def add(told: Mapping[str, Any], named: str, cell: str, build: Path) -> Path:
    """Write the check of one verdict, in place of an earlier one on this candidate; return its path."""
    red, open_ = told["verdict"] in (WRONG, HACK), told["verdict"] in (UNDECIDED, UNUSABLE)
    kind = f" ({told['kind']})" if told.get("kind") else ""
    text = f"{told['verdict']}{kind}: {told['reason']}"[:_LONGEST]
    sandbox = told.get("sandbox", {}).get("kind", "")
    return checks.write(
        Check(
            name=_NAME,
            program=f"verify, in {sandbox or 'no sandbox'}",
            sees=_SEES,
            machine=str(told.get("device", "")),
            commit=commit(Path.cwd()),
            when=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            note=f"Candidate: {named}. Verdict: {told['verdict']}, {len(told.get('cases', ()))} cases.",
            cells=(CheckedCell(cell=cell, tried=int(not open_), found=int(red), explained=0, unfinished=int(open_)),),
            findings=(Finding(case=f"{cell}/{named}", text=text),) if red else (),
            unfinished=(f"{named}: {text}",) if open_ else (),
        ),
        build,
        f"{_NAME}-{hashlib.sha256(named.encode()).hexdigest()[:12]}",
    )
