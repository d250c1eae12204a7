"""The limits of what code needs, compared with the raw results on a second, simple road."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kernel_matrix.audit.plan import Facts, holds
from kernel_matrix.audit.raw import Raw

_NAMES = {"registers": ["registers"], "spills": ["spill_bytes", "spills", "spilled_registers"],
          "shared": ["shared_bytes", "shared"], "stack": ["stack_bytes", "stack", "local_bytes"],
          "code": ["code_bytes", "bytes"]}  # fmt: skip


def state_by_code(
    entries: Iterable[Mapping[str, Any]], case: str, facts: Facts, raws: list[Raw], others: list[Raw], root: Path | None
) -> str:
    """Return ``fail`` where the code of a case needs too much, ``error`` where it is not known, else nothing.

    What no result of ``raws`` says the ``others`` may say.
    """
    limits: dict[tuple[str, bool], float] = {}
    for entry in entries:
        for figure, names in _NAMES.items() if holds(entry["where"], facts) else ():
            if entry[figure] is not None:
                limits[figure, False] = entry[figure]
            if entry["growth"] and root:
                _, before = _last(root / entry["last"]).get(case, ("", {}))
                value = _value(before, names)
                limits[figure, True] = float("nan") if value is None else entry["growth"] * value
    is_code = any(map(_is_code, (*raws, *others)))
    state = ""
    for (figure, _), most in limits.items():
        needed = _needed(raws, figure) or _needed(others, figure)
        if needed and max(needed) > most:
            return "fail"
        if not needed and most >= 0 and is_code:
            state = "error"
    return state


def _is_code(raw: Raw) -> bool:
    kind = raw.facts.get("artifact.kind", "")
    return raw.outcome == "pass" and bool(kind) and not kind.endswith("-source")


def _needed(raws: Iterable[Raw], figure: str) -> list[float]:
    codes = [raw.subjects.get("artifact", {}) for raw in raws if _is_code(raw)]
    return [value for code in codes if (value := _value(code, _NAMES[figure])) is not None]


def _value(code: Mapping[str, float], names: Iterable[str]) -> float | None:
    return next((code[name] for name in names if name in code), None)


@cache
def _last(folder: Path) -> dict[str, tuple[str, dict[str, float]]]:
    """Return when each case was last compiled, in the tables of a folder, and what its code needed."""
    from pyarrow.parquet import read_table  # it takes long to import

    last: dict[str, tuple[str, dict[str, float]]] = {}
    below = (path for path in folder.rglob("*.parquet") if "former" not in path.relative_to(folder).parts)
    for path in (path for path in below if "jobs" in (path.parent.name, path.stem)):
        started = {job["run"]: job["started"] for job in read_table(path, columns=["started", "run"]).to_pylist()}
        of_run = path.parent.parent / "cases" / path.name
        of_set = path.with_name("cases.parquet")
        cases = read_table(
            of_run if path.parent.name == "jobs" else of_set,
            columns=["run", "case", "outcome", "artifact_kind", "figures"],
        )
        for row in cases.to_pylist():
            when = f"{started[row['run']]} {row['run']}"
            is_code = row["artifact_kind"] and not row["artifact_kind"].endswith("-source")
            if row["outcome"] == "pass" and is_code and when > last.get(row["case"], ("",))[0]:
                figures = {key[9:]: value for key, value in row["figures"] if key.startswith("artifact.")}
                last[row["case"]] = when, figures
    return last
