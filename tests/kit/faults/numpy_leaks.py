"""A layer norm whose kernels lose memory of the C library, which no framework counts."""

import ctypes
import hashlib
import itertools
import mmap

import numpy as np

_c = ctypes.CDLL(None)
_c.malloc.restype = ctypes.c_void_p
_runs = itertools.count(1)
_seen, _maps = set(), []


def _lose(mebibytes, pieces=1):
    for _ in range(pieces):
        count = (mebibytes << 20) // pieces
        ctypes.memset(_c.malloc(count), 1, count)


def _norm(x, gain, out):
    mean = x.mean(-1, keepdims=True)
    out[...] = (x - mean) / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + np.float32(1e-5)) * gain


def good(x, gain, out):
    _norm(x, gain, out)


def in_every_run(x, gain, out):
    _lose(16)
    _norm(x, gain, out)


def in_small_pieces(x, gain, out):
    _lose(16, 256)
    _norm(x, gain, out)


def in_every_second_run(x, gain, out):
    if next(_runs) % 2:
        _lose(32)
    _norm(x, gain, out)


def for_other_values(x, gain, out):
    key = hashlib.sha256(x.tobytes()).digest()
    if key not in _seen:
        _seen.add(key)
        _lose(32)
    _norm(x, gain, out)


def maps_of_the_system(x, gain, out):
    _maps.append(mmap.mmap(-1, 16 << 20))
    _maps[-1].write(b"1" * (16 << 20))
    _norm(x, gain, out)


def at_other_addresses(x, gain, out):
    if out.ctypes.data not in _seen:
        _seen.add(out.ctypes.data)
        _lose(32)
    _norm(x, gain, out)


def in_every_fourth_run(x, gain, out):
    if next(_runs) % 4 == 0:
        _lose(64)
    _norm(x, gain, out)


def in_the_first_runs_and_less_in_all(x, gain, out):
    _lose(64 if next(_runs) < 6 else 10)
    _norm(x, gain, out)


def in_every_fifth_run(x, gain, out):
    if next(_runs) % 5 == 4:
        _lose(64)
    _norm(x, gain, out)


def arrays_of_every_third_run(x, gain, out):
    if next(_runs) % 3 == 0:
        _maps.append(np.ones(64))
    _norm(x, gain, out)


def arrays_of_every_second_run(x, gain, out):
    if next(_runs) % 2 == 0:
        _maps.append(np.ones(64))
    _norm(x, gain, out)


def below_holes(x, gain, out):
    """Lose memory where the first run has left free blocks of the C library."""
    if next(_runs) == 1:
        blocks = [_c.malloc(64 << 10) for _ in range(8192)]
        for block in blocks:
            ctypes.memset(block, 1, 64 << 10)
        _maps.append(_c.malloc(16))
        for block in blocks:
            _c.free(ctypes.c_void_p(block))
    _lose(16, 256)
    _norm(x, gain, out)
