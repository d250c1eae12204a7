"""Write the verdicts on many candidates as one HTML file: sorted, filtered, with the earlier verdict of each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from kernel_matrix.base.errors import UserError, reason_of
from kernel_matrix.base.files import write_atomically
from kernel_matrix.tools.verify.verdict import HACK, RIGHT, UNDECIDED, UNUSABLE, WRONG

Told = Mapping[str, Any]
_ORDER = (HACK, WRONG, UNDECIDED, UNUSABLE, RIGHT)
_NUMBERS = ("of its budget", "× the noise", "seconds a call", "× the reference", "CPU-s")
_COLUMNS = ("verdict", "candidate", "task", "reason", *_NUMBERS, "earlier")


def write(path: Path, now: Path, earlier: Sequence[Path]) -> None:
    """Write the page of a file of verdicts; ``earlier`` are files of verdicts on earlier versions, the newest last.

    Raises:
        UserError: one cannot be read.
    """
    before = {_key(one): one for file in earlier for one in _verdicts(file)}
    told = sorted(_verdicts(now), key=lambda one: (_ORDER.index(one["verdict"]), str(one.get("against")), _named(one)))
    counts = Counter(one["verdict"] for one in told)
    there = [name for name in _ORDER if counts[name]]
    text = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    parts = {
        "COUNTS": escape(", ".join(f"{counts[name]} {name}" for name in reversed(there)) or "none"),
        "FILTERS": " ".join(
            f'<label><input type="checkbox" value="{name}" checked> {name} ({counts[name]})</label>' for name in there
        ),
        "HEAD": "".join(f'<th scope="col"><button type="button">{name}</button></th>' for name in _COLUMNS),
        "ROWS": "\n".join(_row(one, before.get(_key(one))) for one in told),
    }
    head, *rest = text.split("@")  # what a candidate says is put in once, and never looked at again
    write_atomically(path, head + "".join(parts.get(part, part) for part in rest))


def _verdicts(path: Path) -> list[Told]:
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: the verdicts cannot be read: {reason_of(error)}.") from error
    if not all(isinstance(one, dict) and one.get("verdict") in _ORDER for one in lines):
        raise UserError(f"{path}: a line is no verdict.")
    return lines


def _named(one: Told) -> str:
    return str(one.get("id") or one.get("file") or f"line {one.get('line')}")


def _key(one: Told) -> tuple[str, str]:
    """Return what names a candidate in all its versions: its task, by its text where that is known, and its name."""
    return str(one.get("task") or one.get("against")), _named(one)


def _row(one: Told, before: Told | None) -> str:
    cases, times, cpu = one.get("cases") or [], one.get("times") or {}, one.get("cpu_seconds") or {}
    seconds, reference = times.get("candidate"), times.get("reference")
    numbers = (
        max((case["share"] for case in cases), default=None),
        max((case["noise"] for case in cases), default=None),
        seconds,
        seconds / reference if seconds and reference else None,
        sum(cpu.values()) if cpu else None,
    )
    kind = f" ({one['kind']})" if one.get("kind") else ""
    undecided = "; ".join([str(one.get("reason") or ""), *(str(text) for text in one.get("undecided") or ())]).strip(
        "; "
    )
    verdict, place = one["verdict"], _ORDER.index(one["verdict"])
    texts = (
        f'<td class="{verdict}" data-key="{place}">{escape(verdict + kind)}</td>',
        f'<td title="{escape(_named(one))}">{escape("/".join(_named(one).split("/")[-2:]))}</td>',
        f"<td>{escape(Path(str(one.get('against', ''))).name)}</td>",
        f'<td class="reason">{escape(undecided)}</td>',
        *(
            f'<td class="number" data-key="{-1 if n is None else n}">{"" if n is None else f"{n:.3g}"}</td>'
            for n in numbers
        ),
        f"<td>{escape('; '.join(_changes(one, before)))}</td>",
    )
    return f'<tr data-verdict="{verdict}">{"".join(texts)}</tr>'


def _changes(one: Told, before: Told | None) -> Iterator[str]:
    """Yield what is other than it was: the text, the verdict, the time."""
    if before is None:
        return
    if one.get("candidate") and one.get("candidate") == before.get("candidate"):
        yield "the same text"
    if one["verdict"] != before["verdict"]:
        yield f"was {before['verdict']}"
    then, now = (each.get("times", {}).get("candidate") for each in (before, one))
    if then and now:
        yield f"{now / then:.2f} × its time"
