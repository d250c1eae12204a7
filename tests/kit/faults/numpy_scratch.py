"""A layer norm whose kernels allocate memory; each name says what the result depends on besides the inputs."""

import itertools

import numpy as np

_LARGE = 10 << 20  # numbers: the C library takes so much from the system each time, and it is zero there
_runs = itertools.count(1)


def _norm(x, gain, spread=None):
    mean = x.mean(-1, keepdims=True)
    spread = ((x - mean) ** 2).mean(-1, keepdims=True) if spread is None else spread
    return (x - mean) / np.sqrt(spread + np.float32(1e-5)) * gain


def _last_bits(out):
    out[...] = np.nextafter(out, np.float32(0))


def good(x, gain, out):
    written = np.empty((64, *x.shape), np.float32)[-1]
    written[...] = x - x.mean(-1, keepdims=True)
    out[...] = _norm(x, gain, (written**2).mean(-1, keepdims=True))


def unwritten(x, gain, out):
    out[...] = _norm(x, gain) + np.empty(_LARGE, np.float32)[-1]


def unwritten_but_for_nan(x, gain, out):
    out[...] = _norm(x, gain) + np.nan_to_num(np.empty(_LARGE, np.float32)[-1], nan=0.0)


def unwritten_nan_alone(x, gain, out):
    out[...] = _norm(x, gain)
    if np.isnan(np.empty(_LARGE, np.float32)[7]):
        _last_bits(out)


def unwritten_tail(x, gain, out):
    padded = np.empty(_LARGE, np.float32)[: 32 * len(x)].reshape(-1, 32)
    padded[:, : x.shape[1]] = (x - x.mean(-1, keepdims=True)) ** 2
    out[...] = _norm(x, gain, padded.sum(-1, keepdims=True) / np.float32(x.shape[1]))


def unwritten_in_the_last_bits(x, gain, out):
    out[...] = _norm(x, gain) * (1 + np.clip(np.empty(_LARGE, np.float32)[-1], 0, np.float32(2e-7)))


def address(x, gain, out):
    out[...] = _norm(x, gain)
    if np._core.multiarray.get_handler_name(np.empty(4096, np.float32)) != "default_allocator":
        _last_bits(out)


def chance(x, gain, out):
    out[...] = _norm(x, gain)
    if next(_runs) % 7 == 0:  # the first run with poison, and none before it
        _last_bits(out)
