"""A function that needs nothing of Triton's language, so its module imports none."""

import triton


@triton.jit
def negative(x):
    return -x
