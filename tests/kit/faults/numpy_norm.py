"""A layer norm in NumPy: one right, and faults of kinds that kernels had. Each takes x, gain and the output."""

import ctypes
import gc
import itertools
import os
import signal
import sys
import threading
import time

import numpy as np


def _norm(x, gain, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    spread = np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + np.float32(eps))
    return (x - mean) / spread * gain


def good(x, gain, out):
    out[...] = _norm(x, gain)


def without_gain(x, gain, out):
    out[...] = _norm(x, np.float32(1))


def remainder_of_two(x, gain, out):
    """Scale the last two rows where the rows are 2 by 4: a tile of four is masked wrongly."""
    out[...] = _norm(x, gain)
    if len(x) % 4 == 2:
        out[-2:] *= 1.5


def memo_by_sum(x, gain, out, kept={}):  # noqa: B006
    """Answer by a fingerprint that two inputs can share."""
    key = (x.shape, np.float32(np.sort(x, axis=None).sum()).tobytes())
    out[...] = kept.setdefault(key, _norm(x, gain))


def memo_by_corner(x, gain, out, kept={}):  # noqa: B006
    """Answer by the first elements alone."""
    key = (x.shape, x.ravel()[:4].tobytes())
    out[...] = kept.setdefault(key, _norm(x, gain))


def before_the_start(x, gain, out):
    out[...] = _norm(x, gain)
    ctypes.memset(out.ctypes.data - 8, 0, 8)


def a_row_too_many(x, gain, out):
    out[...] = _norm(x, gain)
    ctypes.memset(out.ctypes.data + out.nbytes + 64, 0, 16)


def hides_nan(x, gain, out):
    out[...] = _norm(np.nan_to_num(x), gain)


def flushes_subnormals(x, gain, out):
    """Leave the flags of the CPU that flush subnormal numbers to zero."""
    library = ctypes.CDLL("libm.so.6")
    state = (ctypes.c_uint32 * 8)()
    library.fegetenv(state)
    state[7] |= 0x8040
    library.fesetenv(state)
    out[...] = _norm(x, gain)


def rounds_upward(x, gain, out):
    """Leave another direction of rounding."""
    out[...] = _norm(x, gain)
    ctypes.CDLL("libm.so.6").fesetround(0x800)


def leaks_files(x, gain, out, kept=[]):  # noqa: B006
    kept.append(os.open("/dev/null", os.O_RDONLY))
    out[...] = _norm(x, gain)


def leaves_a_thread(x, gain, out):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    out[...] = _norm(x, gain)


def stops_the_collector(x, gain, out):
    gc.disable()
    out[...] = _norm(x, gain)


def takes_a_signal(x, gain, out):
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    out[...] = _norm(x, gain)


def deep_recursion(x, gain, out):
    sys.setrecursionlimit(sys.getrecursionlimit() + 1000)
    out[...] = _norm(x, gain)


_own = threading.local()
_own.ready = True


def for_one_thread(x, gain, out):
    """Have scratch in the thread that has imported the module alone."""
    out[...] = _norm(x, gain) if getattr(_own, "ready", False) else 0


def order_of_memory(x, gain, out):
    """Read the memory in the order in which it lies."""
    flat = x.ravel(order="K") if not x.flags.c_contiguous else x
    out[...] = _norm(flat.reshape(x.shape), gain)


def eighth_call(x, gain, out, calls=itertools.count(1)):  # noqa: B008
    out[...] = _norm(x, gain)
    if next(calls) % 8 == 0:
        out[:1] += 1


def sums_in_half(x, gain, out):
    mean = x.astype(np.float16).mean(-1, keepdims=True).astype(np.float32)
    spread = np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + np.float32(1e-5))
    out[...] = (x - mean) / spread * gain


def clamps(x, gain, out):
    """Saturate what is beyond the range of an integer type."""
    out[...] = _norm(np.clip(x, -64, 64), gain)


def first_row_for_all(x, gain, out):
    """Take one row's statistics for all where there is one tile."""
    out[...] = _norm(x, gain)
    if len(x) == 1:
        out[...] = x * gain


def keeps_its_results(x, gain, out, kept=[]):  # noqa: B006
    """Keep every result: the memory grows with the calls."""
    kept.append(np.array(_norm(x, gain)))
    out[...] = kept[-1]


def leaves_half_unwritten(x, gain, out):
    """Write no row that is all zeros."""
    rows = x.any(-1)
    out[rows] = _norm(x, gain)[rows]
