"""Gives what a backward needs where it is asked for it, rightly and with faults."""

import numpy as np


def _deviation(x):
    d = x - x.mean(-1, keepdims=True)
    return d, np.square(d).mean(-1, keepdims=True)


def good(x, y, r):
    d, v = _deviation(x)
    root = 1 / np.sqrt(v + np.float32(1e-2))
    y[...] = d * root
    if r is not None:
        r[...] = root[:, 0]


def other_where_nothing_is_saved(x, y, r):
    if r is None:
        d, v = _deviation(x)
        y[...] = d / (np.sqrt(v) + np.float32(1e-2))
    else:
        good(x, y, r)


def without_the_mean(x, y, r):
    """Subtract squares: they cancel in a row far from zero."""
    m = x.mean(-1, keepdims=True)
    root = 1 / np.sqrt(np.maximum(np.square(x).mean(-1, keepdims=True) - m * m, 0) + np.float32(1e-2))
    y[...] = (x - m) * root
    if r is not None:
        r[...] = root[:, 0]


def half_of_r(x, y, r):
    good(x, y, r)
    if r is not None:
        r[len(r) // 2 + 1 :] = 0
