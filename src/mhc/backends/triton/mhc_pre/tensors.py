"""The types of what the kernels of a read take and store, in Triton's words; None for what an operator has not."""

from __future__ import annotations

from typing import Any, NamedTuple

from mhc.backends.reading import Incoming, Inputs, Results, Spec
from mhc.backends.triton.launch import POINTERS
from mhc.ops.mhc_head import MhcHeadSpec
from mhc.ops.mhc_pre import MhcPreInputs, MhcPreSpec
from mhc.ops.mhc_pre_norm import MhcPreNormSpec
from mhc.ops.mhc_single_pass import MhcSinglePassSpec
from mhc.ops.mhc_single_pass_fp8 import FP8


class Norm(NamedTuple):
    """Hold the weight of an RMSNorm behind a read, what is normalised, ``s``, and scales of fp8; or their types."""

    weight: Any = None
    normed: Any = None
    s: Any = None
    scales: Any = None


class NormedPre(MhcPreInputs):
    """The inputs of ``mhc_pre``, and the norm behind its read."""

    norm: Norm


def norm_behind(inputs: Any, out: Any) -> Norm:
    """Return the norm of an operator with one, of its inputs and outputs."""
    return Norm(inputs.norm_weight, out.h_in, out.s, getattr(out, "scale", None))


def norm_of(inputs: Inputs) -> Norm:
    """Return the norm behind the read of a forward, which some variants have in their last launch."""
    return getattr(inputs, "norm", Norm())


def norm_types(spec: Spec) -> Norm:
    """Return the types of the same."""
    if not isinstance(spec, (MhcPreNormSpec, MhcSinglePassSpec)):
        return Norm()
    return Norm("*fp32", POINTERS[FP8 if is_fp8(spec) else spec.dtype], "*fp32", "*fp32" if is_fp8(spec) else None)


def is_fp8(spec: Spec) -> bool:
    """Return whether what is normalised is stored in fp8."""
    return hasattr(spec, "power_of_two_scales")


def has_powers(spec: Spec) -> bool:
    """Return whether the scales of fp8 are powers of two."""
    return getattr(spec, "power_of_two_scales", False)


def result_types(spec: Spec) -> Results:
    """Return the types of all that a forward takes beside the mapping, and stores."""
    x, wide = POINTERS[spec.dtype], "*fp32"
    if isinstance(spec, MhcPreSpec):
        return Results(None, x, None, wide, wide, wide, wide)
    if isinstance(spec, MhcHeadSpec):
        return Results(h_in=x, m=wide, r=wide)
    reads = isinstance(spec, MhcSinglePassSpec)
    return Results(wide if reads else None, x if reads else None, *(wide,) * 5)


def incoming_types(spec: Spec) -> Incoming:
    """Return the types of all that a backward takes beside the mapping."""
    x, wide = POINTERS[spec.dtype], "*fp32"
    if isinstance(spec, MhcPreSpec):
        return Incoming(None, x, None, wide, wide)
    if isinstance(spec, MhcHeadSpec):
        return Incoming(grad_h_in=x)
    reads = isinstance(spec, MhcSinglePassSpec)
    return Incoming(*((wide, x) if reads else (None, None)), *(wide,) * 3, wide if reads else None)
