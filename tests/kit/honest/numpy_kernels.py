"""Right kernels in NumPy, each with a habit that a check might take for a fault."""

import collections
import functools
import logging
import os
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np

_lock = threading.Lock()
_workspace = {}
_said = []
_pool, _warming = [], []
_tuned = {}
_room, _layouts, _largest = [], set(), []
_ring, _results, _late = collections.deque(maxlen=10), collections.deque(maxlen=20), []


def _softmax(x):
    z = x.astype(np.float32)
    e = np.exp(z - z.max(-1, keepdims=True)) if z.size else z
    return e / e.sum(-1, keepdims=True)


def columns(x):
    """Return an array in the order of columns."""
    return np.asfortranarray(_softmax(x).astype(x.dtype))


def read_only(x):
    y = _softmax(x).astype(x.dtype)
    y.flags.writeable = False
    return y


def workspace(x):
    """Compute in memory that is kept, under a lock, and return a copy."""
    with _lock:
        work = _workspace.setdefault(x.shape, np.empty(x.shape, np.float32))
        work[...] = _softmax(x)
        return work.astype(x.dtype)


def compiles_once(x):
    """Write a file, set a variable and say so, in the first call alone."""
    if not _said:
        _said.append(1)
        os.environ["HONEST_CACHE"] = tempfile.gettempdir()
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"code")
        logging.getLogger(__name__).warning("compiled")
        import colorsys  # noqa: F401
    return _softmax(x).astype(x.dtype)


def warns(x):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return _softmax(x).astype(x.dtype)


def packs(x):
    """Make its input contiguous, and return a view of a larger array."""
    room = np.zeros((len(x) + 3, x.shape[1]), x.dtype)
    room[: len(x)] = _softmax(np.ascontiguousarray(x)).astype(x.dtype)
    return room[: len(x)]


def refuses(x):
    if not x.flags.c_contiguous:
        raise ValueError("x is not contiguous")
    return _softmax(x).astype(x.dtype)


def row_by_row(x):
    return np.array([_softmax(row[None])[0] for row in x], x.dtype).reshape(x.shape)


@functools.cache
def _scales(width):
    return np.linspace(1, 2, width, dtype=np.float32)


def table(x):
    """Scale columns by a table that it makes once for each width."""
    return (x.astype(np.float32) * _scales(x.shape[1])).astype(x.dtype)


def column_sums(x, weight):
    return (x.astype(np.float64) * weight).sum(0).astype(np.float32)


def product(x, weight, out):
    np.matmul(x.astype(np.float32), weight.astype(np.float32), out=out)


def momentum(p, m, g, lr):
    moved = np.float32(0.9) * m.astype(np.float32) + g.astype(np.float32)
    m[...] = moved
    p[...] = p.astype(np.float32) - np.float32(lr) * moved


def clipped(x):
    return np.clip(x.astype(np.float32) * np.float32(1e4), 0, np.float32(0.5)).astype(x.dtype)


def gather(index, values):
    return values[index]


def _narrow(x):
    return _softmax(x).astype(x.dtype)


def pool(x):
    """Compute in threads that the first calls start."""
    if not _pool:
        _pool.append(ThreadPoolExecutor(3))
    return np.concatenate(list(_pool[0].map(_narrow, np.array_split(x, 2)))) if len(x) else _narrow(x)


def waits_for_a_thread(x):
    """Start a thread in the first call, which ends in the fourth."""
    if not _warming:
        enough = threading.Event()
        _warming.extend([enough, threading.Thread(target=enough.wait, daemon=True), 0])
        _warming[1].start()
    _warming[2] += 1
    if _warming[2] == 4:
        _warming[0].set()
        _warming[1].join()
    return _narrow(x)


def tuned(x):
    """Measure two forms in the first call of each shape."""
    if x.shape not in _tuned:
        began = time.perf_counter()
        columns(x)
        _tuned[x.shape] = time.perf_counter() - began
    return _narrow(x)


def view(x):
    """Return a part of a larger buffer."""
    buffer = np.zeros((len(x), 2, x.shape[1]), x.dtype)
    buffer[:, 1] = _softmax(x)
    return buffer[:, 1]


def differs(x):
    """Give whole numbers alone."""
    more = np.greater(x, x.dtype.type(0.5))
    return more, np.count_nonzero(more, -1).astype(np.int32)


def _reserve(mebibytes):
    """Keep memory that is written, as a compiler does with what it has made."""
    _room.append(np.ones(mebibytes << 17))


def reserves_late(x):
    """Keep 160 MiB in the sixth run, and never again."""
    _room.append(None)
    if len(_room) == 6:
        _reserve(160)
    return _narrow(x)


def for_each_layout(x):
    """Keep 48 MiB for each of the first six layouts and shapes."""
    if (key := (x.strides, x.shape)) not in _layouts and len(_layouts) < 6:
        _layouts.add(key)
        _reserve(48)
    return _narrow(x)


def ring(x):
    """Keep the workspaces of the last ten runs, and the results of the last twenty."""
    _ring.append(np.ones(16 << 17))
    _results.append(_narrow(x))
    return _narrow(x)


def cycle(x):
    """Leave 8 MiB to the collector of cycles."""
    of_itself = [np.ones(8 << 17)]
    of_itself.append(of_itself)
    return _narrow(x)


def frees_late(x):
    """Free the workspaces of eight runs at once."""
    if len(_late) >= 8:  # two threads may have added one each
        _late.clear()
    _late.append(np.ones(24 << 17))
    return _narrow(x)


def grows(x):
    """Keep a workspace that grows to what the most rows take, up to 160 MiB."""
    if (rows := min(len(x), 160)) > sum(map(len, _largest)) >> 17:
        _largest[:] = [np.ones(rows << 17)]
    return _narrow(x)
