"""Faults in what is returned, after an error, in other settings, among calls of other shapes."""

import threading

import numpy as np

_lock = threading.Lock()
_refused, _shape = [], [None]


def _softmax(x, bias):
    z = x.astype(np.float32) * np.float32(0.5) + bias
    e = np.exp(z - z.max(-1, keepdims=True)) if z.size else z
    return (e / e.sum(-1, keepdims=True)).astype(x.dtype)


def good(x, bias):
    return _softmax(x, bias)


class _Row(np.ndarray):
    def __mul__(self, other):
        return self @ other


def a_matrix(x, bias):
    return np.asmatrix(_softmax(x, bias))


def a_subclass(x, bias):
    return _softmax(x, bias).view(_Row)


def masked(x, bias):
    return np.ma.masked_invalid(_softmax(x, bias))


def a_record(x, bias):
    return _softmax(x, bias).view(np.recarray)


def other_byte_order(x, bias):
    y = _softmax(x, bias)
    return y.astype(">f4") if y.dtype == np.float32 else y


def _packed(x):
    if not x.flags.c_contiguous:
        raise ValueError("x is not contiguous")


def wrong_after_an_error(x, bias):
    y = np.zeros_like(x) if _refused else _softmax(x, bias)
    _refused[:] = [] if x.flags.c_contiguous else [1]
    _packed(x)
    return y


def locked_after_an_error(x, bias):
    if not _lock.acquire(timeout=0.2):
        raise RuntimeError("another call works")
    _packed(x)
    y = _softmax(x, bias)
    _lock.release()
    return y


def gone_after_an_error(x, bias):
    if _refused:
        raise RuntimeError("the workspace is gone")
    if not x.flags.c_contiguous:
        _refused.append(1)
    _packed(x)
    return _softmax(x, bias)


def half_after_an_error(x, bias, refused=[]):  # noqa: B006
    if not x.flags.c_contiguous:
        refused.append(1)
    _packed(x)
    return _softmax(x, bias) if not refused else _softmax(x.astype(np.float16).astype(x.dtype), bias)


def in_tiles_of_512(x, bias):
    y = _softmax(x, bias)
    if len(x) and len(x) % 512 == 0:
        y[-1] = 0
    return y


def zeros_where_errors_raise(x, bias):
    return np.zeros_like(x) if np.geterr()["under"] == "raise" else _softmax(x, bias)


def shape_of_another_thread(x, bias):
    _shape[0] = x.shape
    y = np.zeros(x.shape, x.dtype)
    rows = min(len(x), _shape[0][0])
    y[:rows] = _softmax(x[:rows], bias)
    return y


def input_changed_and_set_back(x, bias):
    before = x.copy()
    x[...] = _softmax(x, bias)
    y = x.copy()
    x[...] = before
    return y


def a_view_of_64_megabytes(x, bias):
    room = np.zeros(x.size + (1 << 24), x.dtype)
    y = room[: x.size].reshape(x.shape)
    y[...] = _softmax(x, bias)
    return y
