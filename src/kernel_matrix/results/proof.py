"""Records -> evidence: what a record proves. That it says "pass" is not enough: it must hold figures or an artifact."""

from __future__ import annotations

from collections.abc import Mapping

from kernel_matrix.base.evidence import Evidence
from kernel_matrix.results.record import Record


def evidence_of(record: Record) -> tuple[Evidence, str]:
    """Return what a record proves, and why it proves less than it says (empty if it does not)."""
    if record.outcome == "error":
        return "planned", ""
    if record.action == "compile":
        return _of_a_compilation(record)
    reached: Evidence = "emulated" if record.action == "emulate" else "ran"
    if record.outcome == "fail":
        if record.action in ("run", "emulate"):
            return reached, ""
        return "planned", "the record says that it failed, and does not say that anything ran"
    if record.action not in ("run", "emulate") or not record.metrics.get("elements"):
        return "planned", "the record says that it passed, and compared nothing"
    if outside := outside_the_budget(record.metrics):
        return reached, f"the record says that it passed, and {', '.join(outside)} is over its limit"
    return reached, ""


def outside_the_budget(metrics: Mapping[str, float]) -> list[str]:
    """Return the errors that are over their limit. An error without a limit, or that is no number, is over it."""
    return [
        name
        for name, value in metrics.items()
        if name.endswith((".max_abs", ".rel_fro", ".growth")) and not value <= _limit(metrics, name)
    ]


def _of_a_compilation(record: Record) -> tuple[Evidence, str]:
    kind = record.facts.get("artifact.kind", "")
    if not kind or not record.metrics.get("artifact.bytes"):
        return "planned", "the record says that it compiled, and holds no artifact"
    return ("lowered" if kind.endswith("-source") else "compiled"), ""


def _limit(metrics: Mapping[str, float], name: str) -> float:
    output, _, figure = name.rpartition(".")
    return metrics.get(f"{output}.limit_{figure}", -1.0)
