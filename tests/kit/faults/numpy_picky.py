"""A right kernel, whose plain code takes neither NaN nor no row."""

import numpy as np


def good(x, out):
    out[:] = np.sort(x, -1)
