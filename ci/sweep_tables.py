"""Make tables of the docs from kept sweeps over the versions of a toolchain."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from packaging.version import Version

from kernel_matrix.probes.attempts import Attempt, Sweep, kept_sweeps, name_of, read
from kernel_matrix.probes.changes import in_order
from kernel_matrix.probes.probe import Probe
from kernel_matrix.results.states import RED

SWEEPS = Path(__file__).resolve().parent.parent / "docs" / "toolchains"
Table = tuple[Sequence[str], Sequence[Sequence[str]]]  # the head, and the lines


def attempts(package: str) -> Table:
    """Return how far each version of a package came, from its kept sweep: alone and with the pins that were tried."""
    sweep = read_sweep(package)
    sweeps = [read(path) for path in kept_sweeps(SWEEPS) if path.name.startswith(package)]
    beside = sorted({name for one in sweeps for name in pins_of(one)})
    op = (sweep.case or "///the operator").split("/")[3]
    by_version: dict[str, list[tuple[str, ...]]] = {}
    for attempt in sorted(sweep.attempts, key=lambda one: (Version(one.version), bool(one.pins))):
        line = (
            attempt.pinned or "none",
            *(attempt.versions.get(name, "") for name in beside),
            f"`{attempt.stopped}`" if attempt.stopped else "",
            quoted(attempt.message),
            attempt.worst.state if attempt.worst else "",
        )
        by_version.setdefault(attempt.version, []).append(line)
    merged = [(names, line) for names, lines in merge(by_version) for line in lines]
    head = (package, "pins", *(f"{name} in the environment" for name in beside), "stopped at", "error", f"`{op}`")
    return head, [(names, *line) for names, line in merged]


def pairs(stem: str) -> Table:
    """Return how each version of a package goes with each version of another one, from a kept sweep over pairs."""
    sweep = read_sweep(stem)
    [beside] = pins_of(sweep)
    columns = sorted({attempt.pins[beside] for attempt in sweep.attempts}, key=Version)
    grid: dict[str, dict[str, str]] = {}
    for attempt in sorted(sweep.attempts, key=lambda one: Version(one.version)):
        grid.setdefault(attempt.version, {})[attempt.pins[beside]] = outcome_of_pair(attempt)
    joined = merge({column: [grid[version].get(column, "not tried") for version in grid] for column in columns})
    lines = merge({version: [cells[row] for _, cells in joined] for row, version in enumerate(grid)})
    names = [names for names, _ in joined]
    head = (sweep.package, f"{beside} {names[0]}", *names[1:])
    return head, [(names, *cells) for names, cells in lines]


def versions(stem: str) -> Table:
    """Return what the code of each cell needs in each version of a kept sweep, the most of its cases.

    A number is bold where it differs from the version before.
    """
    tried = in_order(read_sweep(stem).attempts)
    cells = sorted({name.rpartition("/")[0] for attempt in tried for name in attempt.cases})
    lines = []
    for cell in cells:
        texts = [needed(attempt, cell) for attempt in tried]
        _, target, _, op = cell.split("/")
        lines.append((target, f"`{op}`", texts[0], *(bold(new, old) for old, new in pairwise(texts))))
    return ("target", "operator", *(attempt.version for attempt in tried)), lines


def needed(attempt: Attempt, cell: str) -> str:
    """Return the registers, spills and shared memory of a cell, and the red cases; the stop where none was tried."""
    cases = [case for name, case in attempt.cases.items() if name.rpartition("/")[0] == cell]
    code = [case.figures for case in cases if "registers" in case.figures]
    names = (("registers",), ("spill_bytes", "spilled_registers"), ("shared_bytes",))
    most = [max(figures.get(name, 0) for figures in code for name in names) for names in names] if code else []
    red = sum(case.state in RED for case in cases)
    texts = [*([" / ".join(f"{value:.0f}" for value in most)] if most else []), *([f"{red} red"] if red else [])]
    return ", ".join(texts) or (f"`{attempt.stopped}`" if attempt.stopped else "")


def bold(text: str, before: str) -> str:
    """Return a text, in bold where it differs from the text before."""
    return f"**{text}**" if text and text != before else text


def outcome_of_pair(attempt: Attempt) -> str:
    """Return in a few words how a pair ended."""
    if attempt.stopped == "resolve":
        return "does not resolve"
    if not attempt.imports:
        return f"`{attempt.stopped}`: {quoted(attempt.message)}"
    failed = [(name, probe.reason) for name, probe in attempt.probes.items() if probe.outcome != "pass"]
    return "; ".join(f"`{name.split('/')[1]}` fails: {quoted(reason)}" for name, reason in failed) or "fits"


def verdicts_in_sweep(probe: Probe) -> Mapping[str, str]:
    """Return a probe's verdict in every version of the kept sweep of its toolchain, the oldest first.

    A version that was tried more than once counts as it is in an environment that imports, without pins if that does.
    """
    package = re.split(r"[<>=~!]", probe.requires[0])[0]
    if package not in map(name_of, kept_sweeps(SWEEPS)):
        return {}
    order = sorted(
        read_sweep(package).attempts, key=lambda one: (Version(one.version), not one.imports, bool(one.pins))
    )
    first = {version: next(group) for version, group in groupby(order, key=lambda one: one.version)}
    return {
        version: attempt.probes[probe.id].verdict if probe.id in attempt.probes else ""
        for version, attempt in first.items()
    }


def merge(content: Mapping[str, Sequence[Any]]) -> list[tuple[str, Sequence[Any]]]:
    """Join neighbours of equal content: ``0.1.10, 0.1.11``."""
    merged: list[tuple[str, Sequence[Any]]] = []
    for cells, group in groupby(content.items(), key=lambda item: list(item[1])):
        merged.append((", ".join(name for name, _ in group), cells))
    return merged


def pins_of(sweep: Sweep) -> set[str]:
    """Return the packages that a sweep has pinned."""
    return {name for attempt in sweep.attempts for name in attempt.pins}


def read_sweep(stem: str) -> Sweep:
    """Read a kept sweep."""
    return read(next(path for path in kept_sweeps(SWEEPS) if name_of(path) == stem))


def quoted(text: str, most: int = 100) -> str:
    """Return the first line of an error as code, cut to ``most`` characters; nothing for no text."""
    if not text:
        return ""
    line = " ".join(text.splitlines()[0].split())
    code = escaped(line[:most]) + ("..." if len(line) > most else "")
    return f"`` {code} ``" if "`" in code else f"`{code}`"


def escaped(text: str) -> str:
    """Return a text that cannot end a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")
