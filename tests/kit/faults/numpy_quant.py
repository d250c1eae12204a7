"""A product with whole numbers and their scales, in NumPy: one right, and faults written without sight of the kit."""

import ml_dtypes
import numpy as np

_deq = {}


def good(x, q, s):
    return ((x.astype(np.float32) @ q.astype(np.float32).T) * s.astype(np.float32)).astype(x.dtype)


def tail_of_four(x, q, s):
    k = x.shape[1] // 4 * 4
    return ((x.astype(np.float32)[:, :k] @ q.astype(np.float32)[:, :k].T) * s.astype(np.float32)).astype(x.dtype)


def kept_weight(x, q, s):
    key = (q.ctypes.data, q.shape)
    if key not in _deq:
        _deq[key] = q.astype(np.float32) * s.astype(np.float32)[:, None]
    return (x.astype(np.float32) @ _deq[key].T).astype(x.dtype)


def scale_in_bf16(x, q, s):
    w = s.astype(ml_dtypes.bfloat16).astype(np.float32)
    return ((x.astype(np.float32) @ q.astype(np.float32).T) * w).astype(x.dtype)


def activations_by_tensor(x, q, s):
    """Quantise by the largest of all rows, in 16 bits."""
    w = x.astype(np.float32)
    unit = np.abs(w).max() / 32767 if w.size else 1
    w = np.round(w / unit) * unit if unit else w
    return ((w @ q.astype(np.float32).T) * s.astype(np.float32)).astype(x.dtype)


def zero_row_skipped(x, q, s):
    """Rows whose first element is zero are taken for padding."""
    y = good(x, q, s)
    y[x[:, 0] == 0] = 0
    return y


def shares_rows(x, q, s):
    """Rows whose inputs are equal lie in one place."""
    y = good(x, q, s)
    return np.broadcast_to(y[:1], y.shape) if len(y) > 1 and (x == x[:1]).all() else y


def divides_by_width_less_one(x, q, s):
    return good(x, q, s) * ((x.shape[1] - 1) / np.float32(x.shape[1] - 1))
