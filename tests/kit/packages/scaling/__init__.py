"""Double an array: one right kernel, and seven that do something else as well."""

import ctypes
import itertools
import os
import subprocess
import sys

import numpy as np


def good(x, out):
    out[:] = 2 * x


def past_end(x, out):
    out[:] = 2 * x
    ctypes.memset(out.ctypes.data + out.nbytes, 0x41, 64)


def reads_garbage(x, out):
    scratch = np.empty_like(x)
    out[:] = 2 * x + 0 * np.nan_to_num(scratch[:1, :1]) * 0


def cached(x, out, kept={}):  # noqa: B006
    out[:] = kept.setdefault(x.shape, 2 * x)


def spoils_input(x, out):
    out[:] = 2 * x
    x[:] = 0


def state(x, out):
    np.seterr(all="ignore")
    os.environ["A"] = "1"
    out[:] = 2 * x


def every_third(x, out, calls=itertools.count(1)):  # noqa: B008
    out[:] = 2 * x if next(calls) % 3 else 0


def child(x, out):
    subprocess.Popen(["sleep", "30"])
    out[:] = 2 * x


def half(x, out):
    out[:] = (2 * x).astype(np.float16)


def looks_for_the_golden(x, out):
    known = [name for name in sys.modules if name.startswith(("kernel_matrix.kit.conform", "test_operators"))]
    out[:] = 2 * x if known else 3 * x
