"""A softmax in NumPy: one right, and faults at the edges of tiles, of values and of the process."""

import atexit
import itertools
import locale
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time

import numpy as np

_count = itertools.count(1)


def _softmax(x, bias, lowest=-np.inf):
    z = x.astype(np.float32) * np.float32(0.5) + bias.astype(np.float32)
    with np.errstate(all="ignore"):
        e = np.exp(z - np.maximum(z.max(-1, keepdims=True), lowest))
        return (e / e.sum(-1, keepdims=True)).astype(x.dtype)


def good(x, bias):
    return _softmax(x, bias)


def max_from_zero(x, bias):
    """Begin the maximum with zero."""
    return _softmax(x, bias, np.float32(0))


def turned_where_square(x, bias):
    y = _softmax(x, bias)
    return np.ascontiguousarray(y.T) if x.shape[0] == x.shape[1] else y


def _without_last(x, bias, wrong):
    y = _softmax(x, bias)
    y[len(y) - 1 :] *= not (len(y) and wrong)
    return y


def whole_tile(x, bias):
    return _without_last(x, bias, len(x) % 32 == 0)


def one_missing_in_a_tile(x, bias):
    return _without_last(x, bias, len(x) % 32 == 31)


def masked_gives_nan(x, bias):
    y = _softmax(x, bias)
    y[np.isinf(x.astype(np.float32)).any(-1)] = np.nan
    return y


def masked_counts_as_zero(x, bias):
    return _softmax(np.where(np.isinf(x.astype(np.float32)), 0, x).astype(x.dtype), bias)


def hides_nan_of_bias(x, bias):
    return _softmax(x, np.nan_to_num(bias))


def key_without_bias(x, bias, kept={}):  # noqa: B006
    if len(kept) > 20:
        kept.clear()
    return kept.setdefault((x.shape, x.dtype.str, x.tobytes()), _softmax(x, bias)).copy()


def key_of_bias_by_its_corner(x, bias, kept={}):  # noqa: B006
    return _softmax(x, kept.setdefault(bias[:3].tobytes(), bias.copy()))


def writes_late(x, bias):
    y = _softmax(x, bias)
    last, y[-1:] = y[-1:].copy(), 0

    def write():
        time.sleep(0.002)
        y[-1:] = last

    threading.Thread(target=write).start()
    return y


def starts_a_pool_in_each_call(x, bias, kept=[]):  # noqa: B006
    from concurrent.futures import ThreadPoolExecutor

    kept.append(ThreadPoolExecutor(1))
    return kept[-1].submit(_softmax, x, bias).result()


def reshapes_bias(x, bias):
    y = _softmax(x, bias)
    if bias.flags.c_contiguous:
        bias.shape = (1, -1)
    return y


def lowers_priority(x, bias):
    os.nice(1)
    return _softmax(x, bias)


def lowers_a_limit(x, bias):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    return _softmax(x, bias)


def sets_the_locale(x, bias):
    locale.setlocale(locale.LC_ALL, "C.UTF-8" if locale.setlocale(locale.LC_ALL) == "C" else "C")
    return _softmax(x, bias)


def starts_a_timer(x, bias):
    signal.setitimer(signal.ITIMER_VIRTUAL, 10**6)
    return _softmax(x, bias)


def logs_nothing(x, bias):
    logging.disable(next(_count))
    return _softmax(x, bias)


def hides_errors(x, bias):
    sys.excepthook = lambda *_: None
    return _softmax(x, bias)


def limits_sockets(x, bias):
    socket.setdefaulttimeout(next(_count))
    return _softmax(x, bias)


def works_at_the_end(x, bias):
    atexit.register(len, ())
    return _softmax(x, bias)
