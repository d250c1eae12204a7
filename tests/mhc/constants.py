"""Say which shapes have the usual constants, and what the parameters are. This module imports nothing."""

from __future__ import annotations

from typing import Any

WITHOUT = ("mhc_post", "mhc_read", "expand")  # operators without constants
LOUD = 10  # the scale from which on a case has tokens that stand out (draws.py), and other constants
WITH_EQUATIONS = ("reference", "inductor")  # the backends whose kernels are the reference's equations
# The tokens from which a case on an emulated GPU has other code than that it is about: every variant, and code for a
# part of the gradients. Compiling takes most of the time there. In each cell of a first target some cases have so many.
OTHER_CODE = 8
# Shared by all tokens: their gradients are sums over tokens.
PARAMETERS = {"phi", "alpha", "bias", "gamma", "norm_weight"}


def usual(op: str, axes: dict[str, Any]) -> bool:
    """Return whether a case has the paper's constants: ``pre_eps`` of 1e-6, 20 iterations, and so on.

    A kernel for which a constant is what it usually is would otherwise pass every case. It follows from the sizes and
    the dtype that a kernel is compiled for, so there are few more kernels than without other constants. In fp32 a case
    of a large scale has the other ones, so that one process runs two kernels that differ by their constants alone.
    """
    wide = axes["dtype"] == "fp32"
    by_shape = axes["streams"] % 2 == 0 if op == "sinkhorn" else (axes["hidden"] % 256 == 0) == wide
    return bool(by_shape != (wide and axes["scale"] >= LOUD))
