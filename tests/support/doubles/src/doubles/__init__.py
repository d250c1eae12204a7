"""A kernel package of test doubles: one backend that works, and one for each way in which a kernel goes wrong."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from pathlib import Path

import numpy as np

from kernel_matrix.job.worker import Unavailable


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
    raise Unavailable("the device does not answer")


def hogs_memory(x: np.ndarray, out: np.ndarray) -> None:
    """Take memory until there is none; never more than a machine without limits has to spare."""
    held = []
    for _ in range(64):
        held.append(b"\1" * (1 << 24))
    raise MemoryError(f"{len(held)} blocks of 16 MiB were to be had")


def forks_away(x: np.ndarray, out: np.ndarray) -> None:
    """Leave a process behind that belongs to nobody."""
    if os.fork():
        os._exit(0)
    os.setsid()
    os.execvp("sleep", ["sleep", "4242"])


def fills_disk(x: np.ndarray, out: np.ndarray) -> None:
    """Write until there is no room, at most 256 MiB."""
    folder = Path(os.environ["DOUBLES_SCRATCH"])
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError), (folder / "junk").open("wb", buffering=0) as junk:
        for _ in range(256):
            junk.write(b"\1" * (1 << 20))
    with contextlib.suppress(OSError), (folder / "more").open("wb", buffering=0) as junk:
        for _ in range(1 << 20):
            junk.write(b"\1")
    out[:] = 2 * x


FAULTY = (segfault, hang, raises, writes_nothing, leaves, wrong, hogs_memory, forks_away, fills_disk, no_device)
BACKENDS = {f.__name__.replace("_", "-"): f for f in FAULTY}
