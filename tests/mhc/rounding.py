"""Hold an output that is narrower than fp32 to one rounding: its last one.

The error of such an output is nearly all its last rounding, so the budget of its norm has room for another rounding on
the way: the rounding of a coefficient to bf16 takes 0.7 to 0.95 of it. The share of misrounded elements tells them
apart. These are not the golden rounded once to the dtype. An error of e before the last rounding misrounds about e /
ULP of the elements: in bf16 that is 0.1 % for a kernel that computes in fp32, and 5 to 40 % with one more rounding to
bf16.

Where the baseline rounds on the way too (to TF32), the share may be twice the baseline's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from held import hold

# The largest share of a right kernel in docs/results (CPU, OpenCL, WebGPU, a TPU's interpreter, sm_90) is 0.5 %, of
# Triton's `bf16x3`, which has 16 bits of phi and of c in dx.
SHARE = 0.01
BASELINES = 2.0
DEVIATIONS, LUCK = 4.0, 2.0  # of the number of misrounded elements, by the luck of a draw


def most(elements: float, baseline: float) -> float:
    """Return the largest share of misrounded elements; ``baseline`` is the baseline's share.

    Few elements can have many by luck: their number has about the variance of its mean.
    """
    expected = elements * max(SHARE, BASELINES * baseline)
    return (expected + DEVIATIONS * math.sqrt(expected) + LUCK) / elements


def check(metrics: Mapping[str, float], outputs: Mapping[str, np.ndarray]) -> None:
    """Check the share of every output that is narrower than fp32.

    Raises:
        AssertionError: one has more misrounded elements than a single rounding gives.
    """
    hold(not (faults := list(_faults(metrics, outputs))), "; ".join(faults))


def _faults(metrics: Mapping[str, float], outputs: Mapping[str, np.ndarray]) -> Iterable[str]:
    for name, values in outputs.items():
        if values.dtype.itemsize < np.dtype(np.float32).itemsize:
            share, limit = metrics[f"{name}.misrounded"], most(values.size, metrics[f"{name}.floor_misrounded"])
            if not share <= limit:
                yield f"{name}: {share:.2%} of the elements are misrounded, over {limit:.2%}: it was rounded before"
