"""A small package of Triton kernels: some compile everywhere, and each of the others has one fault."""

import mmap
import os
import signal
import time

import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice


@triton.jit
def half(x):
    return x * 0.5


@triton.jit
def mean_of_two(x, y, out, n, shift, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    mean = half(tl.load(x + at, at < n) + tl.load(y + at, at < n))
    tl.store(out + at, mean + shift.to(tl.float32), at < n)  # a float has this method in a compiler only


def clear(arguments):
    """Fill the output before each configuration, as a kernel with atomics needs it."""
    arguments["out"].zero_()


@triton.autotune([triton.Config({"block": b}, num_warps=w, pre_hook=clear) for b in (64, 128) for w in (2, 4)], ["n"])
@triton.heuristics({"even": lambda arguments: arguments["n"] % arguments["block"] == 0})
@triton.jit
def tuned(x, out, n, block: tl.constexpr, even: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    if even:
        tl.store(out + at, tl.exp(tl.load(x + at)))
    else:
        tl.store(out + at, tl.exp(tl.load(x + at, at < n)), at < n)


@triton.jit
def only_nvidia(x, out, block: tl.constexpr):
    at = tl.arange(0, block)
    tl.store(out + at, libdevice.rsqrt(tl.load(x + at)))


@triton.jit
def product(a, b, out, size: tl.constexpr):
    row, column = tl.arange(0, size)[:, None], tl.arange(0, size)[None, :]
    tl.store(out + row * size + column, tl.dot(tl.load(a + row * size + column), tl.load(b + row * size + column)))


@triton.jit
def wrong_shapes(x, out, block: tl.constexpr):
    tl.store(out + tl.arange(0, block), tl.load(x + tl.arange(0, 2 * block)))


def hang(_):
    """Take longer than anybody waits. Triton asks a kernel's own function for its name while it compiles."""
    time.sleep(1000)


@triton.jit(repr=hang)
def endless(out):
    tl.store(out, 1)


def take_memory(_):
    """Take more memory than a compiler is given."""
    mmap.mmap(-1, 12 << 30)


@triton.jit(repr=take_memory)
def greedy(out):
    tl.store(out, 1)


def crash(_):
    """Die as a compiler dies."""
    os.kill(os.getpid(), signal.SIGSEGV)


@triton.jit(repr=crash)
def crashing(out):
    tl.store(out, 1)


GREETING = "hello"


@triton.jit
def refused(out):
    tl.store(out, len(GREETING))
