"""The kernel under test, where it is only compiled. The process that compares needs no PyTorch for that."""

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
    value, arrays = case.call("kernel_side:compile_ahead", kernel=described(case), axes=case.axes)
    case.compiled(value["kind"], arrays["data"].tobytes(), value["resources"])
