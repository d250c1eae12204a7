"""A kernel package of test doubles: one backend that works, and one for each way in which a kernel goes wrong."""

from __future__ import annotations

import ctypes
import os
import time

import numpy as np
import pytest


def double(x: np.ndarray, out: np.ndarray) -> None:
    out[:] = 2 * x


def segfault(x: np.ndarray, out: np.ndarray) -> None:
    ctypes.string_at(0)


def hang(x: np.ndarray, out: np.ndarray) -> None:
    while True:
        time.sleep(1)


def raises(x: np.ndarray, out: np.ndarray) -> None:
    raise ZeroDivisionError("the launch was refused")


def writes_nothing(x: np.ndarray, out: np.ndarray) -> None:
    pass


def leaves(x: np.ndarray, out: np.ndarray) -> None:
    os._exit(0)


def wrong(x: np.ndarray, out: np.ndarray) -> None:
    out[:] = 2.001 * x


def no_device(x: np.ndarray, out: np.ndarray) -> None:
    pytest.skip("the device does not answer")


BACKENDS = {f.__name__.replace("_", "-"): f for f in (segfault, hang, raises, writes_nothing, leaves, wrong, no_device)}
