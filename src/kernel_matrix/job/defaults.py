"""The limits of the error that hold where nobody has named others: those of a suite that compares by a fixture."""

from __future__ import annotations

FACTOR = 4.0  # times the noise
ROUNDED = 1.5  # times the noise, of the Frobenius error of an output narrower than fp32
ULPS = 4.0  # of fp32 at the largest value: the least noise
CAP = 1.0e-2  # the largest absolute error at unit scale
SOURCE = (
    "The default of kernel-matrix: chosen to allow another order of summation; docs/limits.md has what was measured "
    "with the same limits."
)
