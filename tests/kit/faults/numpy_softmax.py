import ctypes
import gc
import os
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np

_kept, _first, _exits = {}, [], []
_scratch = np.zeros((100_000, 64), np.float32)
_exp = np.exp


def _softmax(x, bias, shift=True):
    z = x.astype(np.float32) * np.float32(0.5) + bias
    e = np.exp(z - (z.max(-1, keepdims=True) if z.size and shift else 0))
    return e / e.sum(-1, keepdims=True)


def good(x, bias):
    return _softmax(x, bias).astype(x.dtype)


def no_maximum(x, bias):
    with np.errstate(all="ignore"):
        return _softmax(x, bias, shift=False).astype(x.dtype)


def wraps_rows(x, bias):
    rows = np.arange(len(x)).astype(np.uint16)
    return good(x[rows], bias)


def leaves_a_file(x, bias):
    with Path(tempfile.gettempdir(), "kernel-cache.bin").open("ab") as file:
        file.write(b"x" * 64)
    return good(x, bias)


def stops_the_collector(x, bias):
    gc.disable()
    return good(x, bias)


def pins_itself(x, bias):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return good(x, bias)


def silences_warnings(x, bias):
    warnings.simplefilter("ignore", RuntimeWarning)
    return good(x, bias)


def sampled_key(x, bias):
    key = (x.shape, x.dtype.str, x[::3, ::5].tobytes(), bias.tobytes())
    if key not in _kept:
        _kept[key] = good(x, bias)
    return _kept[key].copy()


def late(x, bias):
    y = good(x, bias)
    last = y[-1:].copy()
    y[-1:] = 0

    def finish():
        time.sleep(0.002)
        y[-1:] = last

    threading.Thread(target=finish).start()
    return y


def shared_scratch(x, bias):
    n, h = x.shape
    work = _scratch[:n, :h]
    work[:] = x
    time.sleep(0.0005)
    return _softmax(work, bias).astype(x.dtype)


def truncates(x, bias):
    y = _softmax(x, bias)
    if x.dtype.itemsize == 2:
        y = (y.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    else:
        y = (y.astype(np.float64) * (1 - 2**-24)).astype(np.float32)
    return y.astype(x.dtype)


def reads_before(x, bias):
    y = _softmax(x, bias)
    if x.size and x.flags.c_contiguous:
        raw = (ctypes.c_char * x.itemsize).from_address(x.ctypes.data - x.itemsize)
        before = np.frombuffer(raw, x.dtype)
        y[0, 0] += np.float32(before[0]) * 0
    return y.astype(x.dtype)


def drops_nan(x, bias):
    return good(np.nan_to_num(x.astype(np.float32)).astype(x.dtype), bias)


def small_to_zero(x, bias):
    y = _softmax(x, bias)
    y[y < 1e-5] = 0
    return y.astype(x.dtype)


def replaces_exp(x, bias):
    np.exp = lambda z: _exp(z)
    return good(x, bias)


def first_call_wrong(x, bias):
    _first.append(1)
    return good(x, bias) * x.dtype.type(2 if len(_first) == 1 else 1)


def tail_dropped(x, bias):
    y = good(x, bias)
    if len(y) > 32:
        y[len(y) // 32 * 32 :] = 0
    return y


def wide(x, bias):
    return _softmax(x, bias).astype(np.float64)


def quiet_exit(x, bias):
    _exits.append(1)
    if len(_exits) == 4:
        os._exit(0)
    return good(x, bias)


def mixes_when_large(x, bias):
    y = good(x, bias)
    if len(y) > 1000:
        y[1000] = y[999]
    return y
