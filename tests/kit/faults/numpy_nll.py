"""The loss of a row by its class, in NumPy: one right, and faults written without sight of the kit."""

import gc
import logging
import sys

import numpy as np

_last = {}


def _nll(x, t):
    w = x.astype(np.float32)
    top = w.max(-1, keepdims=True)
    return np.log(np.exp(w - top).sum(-1)) + top[:, 0] - w[np.arange(len(w)), t]


def good(x, t):
    return _nll(x, t).astype(x.dtype)


def no_max(x, t):
    w = x.astype(np.float32)
    return (np.log(np.exp(w).sum(-1)) - w[np.arange(len(w)), t]).astype(x.dtype)


def last_class(x, t):
    return _nll(x, np.minimum(t, x.shape[1] - 2)).astype(x.dtype)


def zero_is_padding(x, t):
    return np.where(t == 0, 0, _nll(x, t)).astype(x.dtype)


def row_in_16_bits(x, t):
    r = np.arange(len(x)).astype(np.uint16).astype(int)
    return _nll(x[r], t[r]).astype(x.dtype)


def silences_logs(x, t):
    logging.disable(logging.CRITICAL)
    return _nll(x, t).astype(x.dtype)


def stops_the_collector(x, t):
    gc.disable()
    return _nll(x, t).astype(x.dtype)


def switch(x, t):
    sys.setswitchinterval(1.0)
    return _nll(x, t).astype(x.dtype)


def column(x, t):
    return _nll(x, t).astype(x.dtype)[:, None]


def wide(x, t):
    return _nll(x, t).astype(np.float64)


def square_is_transposed(x, t):
    if x.shape[0] == x.shape[1]:
        x = x.T
    return _nll(x, t).astype(x.dtype)


def online_bad_rescale(x, t):
    """Online softmax whose rescaling of the sum is skipped where a later block has the maximum by less than 1."""
    w = x.astype(np.float32)
    m = np.full(len(w), -1e30, np.float32)
    s = np.zeros(len(w), np.float32)
    for k in range(0, w.shape[1], 16):
        block = w[:, k : k + 16]
        new = np.maximum(m, block.max(-1))
        s = s * np.exp(m - new) + np.exp(block - new[:, None]).sum(-1)
        m = new
    return (np.log(s) + np.where(m > 30, 30, m) - w[np.arange(len(w)), t]).astype(x.dtype)


def previous(x, t):
    """Return the answer of the call before (a missing synchronisation with a double buffer)."""
    now = _nll(x, t).astype(x.dtype)
    before = _last.get(now.shape, now)
    _last[now.shape] = now
    return before
