"""The limits of the error that hold where nobody has named others: for suites that compare by a fixture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FACTOR = 4.0  # times the noise
ROUNDED = 1.5  # times the noise, of the Frobenius error of an output narrower than fp32
ULPS = 4.0  # of fp32 at the largest value: the least noise
MISROUNDED = 0.01  # of the elements of an output narrower than fp32
CAP = 1.0e-2  # the largest absolute error at unit scale
SOURCE = (
    "The default of kernel-matrix: chosen to allow another order of summation; docs/limits.md has what was measured "
    "with the same limits."
)


def accuracy(direction: str, limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits of matrix.yaml's ``accuracy``, with these in place of those that it does not name."""
    general = {"factor": FACTOR, "rounded": ROUNDED, "ulps": ULPS}
    return {**general, **limits, "caps": {direction: CAP, **limits.get("caps", {})}}
