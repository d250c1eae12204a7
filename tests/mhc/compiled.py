"""The code of the kernel under test. The process that compares needs no PyTorch for that."""

from __future__ import annotations

from typing import Any

from kernel_matrix.job.case import RunningCase


def described(case: RunningCase, tokens: int | None = None) -> dict[str, Any]:
    """Return the kernel of a case as the kernel's process finds it, for ``tokens`` or for the tokens of the case."""
    return {
        "backend": case.backend,
        "op": case.op,
        "direction": case.direction,
        "device": case.device,
        "target": None if case.interpreted else case.target,
        "tokens": tokens or case.axes["tokens"],
    }


def compile_ahead(case: RunningCase) -> None:
    """Compile for the case's target, and record the artifact."""
    _record(case, "compile_ahead")


def record_what_ran(case: RunningCase) -> None:
    """Record the artifact that the case has run, where the backend has it; where it should and has not, the reason."""
    if not case.interpreted:
        _record(case, "code_that_ran")


def _record(case: RunningCase, function: str) -> None:
    value, arrays = case.call(f"kernel_side:{function}", kernel=described(case), axes=case.axes)
    if "kind" in value:
        case.compiled(value["kind"], arrays["data"].tobytes(), value["resources"])
    case.facts |= value.get("facts", {})
