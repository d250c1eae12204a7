"""Records -> evidence: what a record proves. That it says "pass" is not enough: it must hold figures or an artifact."""

from __future__ import annotations

from kernel_matrix.base.evidence import Evidence
from kernel_matrix.config.owed import Owed
from kernel_matrix.config.plan import Case
from kernel_matrix.results.canaries import INJECTED
from kernel_matrix.results.limits import fault_of, growth_limit, is_of_an_earlier_version
from kernel_matrix.results.place import misplaced
from kernel_matrix.store.record import Record, outputs_of

EARLIER = "made by an earlier kernel-matrix: it does not say how its limits were made; run again"


def evidence_of(record: Record, case: Case) -> tuple[Evidence, str]:
    """Return what a record proves, and why it proves less than it says (empty if it does not)."""
    if record.outcome == "error":
        return "planned", ""
    if record.action == "compile":
        return _of_a_compilation(record)
    reached: Evidence = "emulated" if record.action == "emulate" else "ran"
    if case.owed.asserted and not outputs_of(record.metrics) and "elements" not in record.metrics:
        reached = "held"
    if record.outcome == "fail":
        if record.action in ("run", "emulate"):
            return reached, ""
        return "planned", "the record says that it failed, and does not say that anything ran"
    if reached == "held" and record.action in ("run", "emulate"):
        return reached, misplaced(case, record)
    if record.action not in ("run", "emulate") or not record.metrics.get("elements"):
        return "planned", "the record says that it passed, and compared nothing"
    return reached, doubt_of(record, case.owed) or misplaced(case, record)


def doubt_of(record: Record, owed: Owed) -> str:
    """Return why the figures of a record that says pass are no proof; empty if they are.

    It owes all figures of every output that matrix.yaml names, and of every output of each variant. The limits are
    computed again from matrix.yaml.
    """
    outputs = outputs_of(record.metrics)
    if is_of_an_earlier_version(outputs):
        return EARLIER
    variants = {"", *(name[len(name.partition("@")[0]) :] for name in outputs)}
    absent = [
        f"{name}{variant}" for variant in sorted(variants) for name in owed.outputs if f"{name}{variant}" not in outputs
    ]
    if absent or not outputs:
        return f"the record owes the figures of {', '.join(absent) or 'at least one output'}"
    for output, figures in outputs.items():
        name = output.partition("@")[0]
        if owed.outputs and name not in owed.outputs:
            return f"the record has figures of {name}, which is no output of this case by matrix.yaml"
        if not figures.get("growth", 0.0) <= growth_limit(figures, owed, name):
            return f"the record says that it passed, and {output}.growth is over its limit"
        if fault := fault_of(figures, owed, output):
            return f"the record says that it passed, and of {output} {fault}"
    if owed.asserted and not record.metrics.get(INJECTED):
        return "the record compared numbers, and no fault was put in: nothing shows that it compares"
    if record.metrics["elements"] != (total := sum(figures["elements"] for figures in outputs.values())):
        return f"the record says that {record.metrics['elements']:g} elements were compared; its outputs have {total:g}"
    return ""


def _of_a_compilation(record: Record) -> tuple[Evidence, str]:
    kind = record.facts.get("artifact.kind", "")
    if not kind or not record.metrics.get("artifact.bytes"):
        return "planned", "the record says that it compiled, and holds no artifact"
    return ("lowered" if kind.endswith("-source") else "compiled"), ""
