"""Comparison -> the document that compat.json, the page and the summary are made from."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from kernel_matrix.base.evidence import EVIDENCE
from kernel_matrix.config.model import Matrix
from kernel_matrix.diagnosis import NOT_KNOWN, Rule, diagnose
from kernel_matrix.results.collect import Collected
from kernel_matrix.results.compare import RED, STATES, CellVerdict, Comparison, Verdict
from kernel_matrix.results.record import Record

SCHEMA_VERSION = 1
RED_FIRST = [state for state in STATES if state in RED]

Document = dict[str, Any]


def document(
    matrix: Matrix, comparison: Comparison, collected: Collected, rules: tuple[Rule, ...] | None = None
) -> Document:
    """Everything that is known, as plain data: ``schema_version``, ``run``, ``cells``, ``jobs``, ``problems``."""
    jobs: list[Mapping[str, str]] = []
    cells = [_cell(matrix, cell, jobs, rules) for cell in comparison.cells]
    return {
        "schema_version": SCHEMA_VERSION,
        "run": {
            "package": comparison.plan.package,
            "tier": comparison.plan.tier,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "commits": sorted({r.job["commit"] for r in collected.records if r.job.get("commit")}),
            "devices": sorted({r.job["device"] for r in collected.records if _used_device(r)}),
            "cells": len(cells),
            "cells_by_state": _count((cell["state"] for cell in cells), STATES),
            "cells_by_evidence": _count((cell["evidence"] for cell in cells), EVIDENCE),
            "cases": len(comparison.plan.cases),
            "cases_by_state": comparison.counts,
            "unplanned": len(comparison.unplanned),
        },
        "platforms": [
            {"name": name, "title": platform.title, "targets": list(platform.targets)}
            for name, platform in matrix.platforms.items()
        ],
        "overview": _overview(cells),
        "speed": _speed(cells),
        "undiagnosed": _undiagnosed(cells),
        "problems": list(collected.broken),
        "cells": cells,
        "jobs": jobs,
    }


def _overview(cells: list[Document]) -> list[Document]:
    """One entry per platform × target × toolchain: the worst state of its operators, and how many are how far."""
    groups: dict[tuple[str, str, str], list[Document]] = {}
    for cell in cells:
        groups.setdefault((cell["platform"], cell["target"], cell["toolchain"]), []).append(cell)
    return [
        {
            "platform": platform,
            "target": target,
            "toolchain": toolchain,
            "state": min((cell["state"] for cell in group), key=STATES.index),
            "evidence": min((cell["evidence"] for cell in group), key=EVIDENCE.index),
            "cells": len(group),
            "by_state": _count((cell["state"] for cell in group), STATES),
            "by_evidence": _count((cell["evidence"] for cell in group), EVIDENCE),
        }
        for (platform, target, toolchain), group in groups.items()
    ]


def _speed(cells: list[Document]) -> list[Document]:
    """One entry per timed case of an operator on a target: the times of every toolchain, in one row."""
    rows: dict[tuple[str, str, str, str], Document] = {}
    for cell in cells:
        for timed in cell["timed"]:
            key = (cell["platform"], cell["target"], f"{cell['op']} {cell['direction']}", timed["case"])
            rows.setdefault(key, {})[cell["toolchain"]] = {k: v for k, v in timed.items() if k != "case"}
    return [
        {"platform": platform, "target": target, "op": op, "case": case, "toolchains": found}
        for (platform, target, op, case), found in rows.items()
    ]


def headline(whole: Document) -> str:
    """One sentence for people: what is known of how many cells, and what is not."""
    run = whole["run"]
    words = {
        **{level: run["cells_by_evidence"].get(level) for level in ("ran", "emulated", "compiled", "lowered")},
        **{state: run["cells_by_state"].get(state) for state in ("known", "unavailable", "excluded")},
    }
    said = {
        "ran": "ran",
        "emulated": "ran in an emulator",
        "compiled": "compiled",
        "lowered": "became source",
        "known": "failed as expected",
        "unavailable": "had no device",
        "excluded": "were left out",
    }
    known = [f"{count} {said[key]}" for key, count in words.items() if count]
    red = [f"{count} {state}" for state in RED_FIRST if (count := run["cells_by_state"].get(state))]
    text = f"Of {run['cells']} cells {', '.join(known) or 'none has a result'}"
    return f"{text}. {'Red: ' + ', '.join(red) + '.' if red else 'None is red.'}"


def repeat_command(platform: str, case_or_cell: str) -> str:
    """The command that repeats a case, or a whole cell."""
    return f"ci/nox -s test-{platform} -- --case '{case_or_cell}'"


def _cell(
    matrix: Matrix, verdict: CellVerdict, jobs: list[Mapping[str, str]], rules: tuple[Rule, ...] | None
) -> Document:
    cell = verdict.cell
    deciding = next((v for v in verdict.cases if v.state == verdict.state), verdict.cases[0])
    records = [v.record for v in verdict.cases if v.record]
    return {
        "id": cell.id,
        "package": cell.package,
        "platform": cell.platform,
        "target": cell.target,
        "toolchain": cell.toolchain,
        "backend": cell.backend,
        "op": cell.op,
        "direction": cell.direction,
        "state": verdict.state,
        "evidence": verdict.evidence,
        "cases": verdict.counts,
        "planned": len(verdict.cases),
        "stage": deciding.record.stage if deciding.record else "",
        "reason": deciding.reason,
        "diagnosis": _diagnosis(deciding, rules),
        "error": deciding.record.message if deciding.record and verdict.state == "known" else "",
        "accuracy": _accuracy(records),
        "artifact": _artifact(records),
        "timed": [time for v in verdict.cases if (time := _time(v))],
        "versions": _versions(records),
        "lock": matrix.toolchains[cell.toolchain].lock,
        "repeat": repeat_command(cell.platform, cell.id),
        "results": [_result(v, jobs, rules) for v in verdict.cases],
    }


def _result(verdict: Verdict, jobs: list[Mapping[str, str]], rules: tuple[Rule, ...] | None) -> Document:
    record = verdict.record or Record(verdict.case.id, "missing")
    if record.job and record.job not in jobs:
        jobs.append(record.job)
    return {
        "name": verdict.case.name,
        "state": verdict.state,
        "evidence": verdict.evidence,
        "reason": verdict.reason,
        "stage": record.stage,
        "action": record.action,
        "message": record.message if record.message != verdict.reason else "",
        "detail": record.detail,
        "diagnosis": _diagnosis(verdict, rules),
        "seconds": record.seconds,
        "attempts": list(record.attempts),
        "outputs": _outputs(record),
        "artifact": {k[9:]: _number(v) for k, v in record.metrics.items() if k.startswith("artifact.")},
        "time": {k[5:]: _number(v) for k, v in record.metrics.items() if k.startswith("time.")},
        "facts": dict(record.facts),
        "job": jobs.index(record.job) if record.job else None,
        "repeat": repeat_command(verdict.case.cell.platform, verdict.case.id),
    }


def _diagnosis(verdict: Verdict, rules: tuple[Rule, ...] | None) -> dict[str, str]:
    """Cause and remedy of what went wrong; nothing for a case that did not."""
    if verdict.state not in ("fail", "error", "known") or verdict.record is None:
        return {}
    record = verdict.record
    found = diagnose(f"{record.message}\n{record.detail}", record.stage or record.outcome, record.job, rules)
    if found is None:
        return {"rule": "", "cause": NOT_KNOWN, "remedy": "", "link": ""}
    return {"rule": found.rule, "cause": found.cause, "remedy": found.remedy, "link": found.link}


def _undiagnosed(cells: Iterable[Document]) -> list[Document]:
    """The errors that no rule knows, said once each, with how many cases have them: rules to add."""
    counted = Counter(
        (result["stage"], (result["message"] or result["reason"]).splitlines()[0])
        for cell in cells
        for result in cell["results"]
        if result["state"] == "error"
        and result["diagnosis"]
        and not result["diagnosis"]["rule"]
        and (result["message"] or result["reason"])
    )
    return [{"stage": stage, "message": message, "cases": n} for (stage, message), n in counted.most_common()]


def _outputs(record: Record) -> dict[str, dict[str, float | str]]:
    """The metrics by output: ``{"h_in": {"max_abs": 1e-7, ...}}``."""
    outputs: dict[str, dict[str, float | str]] = {}
    for key, value in record.metrics.items():
        output, dot, figure = key.partition(".")
        if dot and output not in ("artifact", "time"):
            outputs.setdefault(output, {})[figure] = _number(value)
    return outputs


def _number(value: float) -> float | int | str:
    """A number that JSON can hold: five digits are enough to read, and Inf and NaN become words."""
    if not math.isfinite(value):
        return str(value)
    return int(value) if value == int(value) and abs(value) < 1e15 else float(f"{value:.5g}")


def _accuracy(records: Iterable[Record]) -> Document:
    """The case that came nearest to its budget, or went furthest beyond it."""
    worst: Document = {}
    for record in records:
        for key, value in record.metrics.items():
            output, _, figure = key.rpartition(".")
            limit = record.metrics.get(f"{output}.limit_{figure}")
            if figure in ("max_abs", "rel_fro") and limit:
                share = value / limit if math.isfinite(value) else math.inf
                if not worst or share > worst["share"]:
                    worst = {"share": share, "output": output, "figure": figure, "error": _number(value),
                             "limit": _number(limit), "case": record.case}  # fmt: skip
    return {**worst, "share": _number(worst["share"])} if worst else {}


def _time(verdict: Verdict) -> Document:
    """How long a case took, in seconds, and how many times as long eager PyTorch did; of passed cases only."""
    record = verdict.record
    if record is None or verdict.state != "pass" or "time.ratio" not in record.metrics:
        return {}
    name = verdict.case.name.removesuffix("-timed")
    return {"case": name, **{key[5:]: _number(v) for key, v in record.metrics.items() if key.startswith("time.")}}


def _artifact(records: Iterable[Record]) -> Document:
    """The kinds of code that came out, and the largest of each resource over the cases."""
    largest: Document = {}
    kinds = set()
    for record in records:
        if kind := record.facts.get("artifact.kind"):
            kinds.add(kind)
        for key, value in record.metrics.items():
            if key.startswith("artifact."):
                largest[key[9:]] = max(largest.get(key[9:], 0), _number(value))
    return {"kinds": sorted(kinds), **largest} if kinds else {}


def _versions(records: Iterable[Record]) -> dict[str, list[str]]:
    """Every version that a case of the cell saw: more than one when machines differ."""
    seen: dict[str, set[str]] = {}
    for record in records:
        for key, value in record.job.items():
            if key == "python" or key.startswith("version."):
                seen.setdefault(key.removeprefix("version."), set()).add(value)
    return {name: sorted(values) for name, values in sorted(seen.items())}


def _used_device(record: Record) -> bool:
    return record.action in ("run", "emulate") and record.job.get("device", "none") != "none"


def _count(values: Iterable[str], order: Iterable[str]) -> dict[str, int]:
    counted = Counter(values)
    return {key: counted[key] for key in order if counted[key]}
