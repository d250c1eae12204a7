"""A compiler that keeps its code in a cache, and does one thing wrong in each case but the first.

Its code is the factor 2, and one unit in the last place more in its first version. Both are inside of the budget.
"""

import errno
import hashlib
import os
import time
from pathlib import Path

import numpy as np

CACHE, VERSION = Path(os.environ["DOUBLES_CACHE"]), os.environ["DOUBLES_VERSION"]
FAULTS = dict(enumerate(("", "shared", "cold", "warm", "other-version", "cut-short", "read-only", "full"), start=1))


def run(arrays, *, backend, faulty):
    x = arrays["x"]
    return None, {"out": x * np.float32(code(FAULTS[len(x)]))}


def code(fault):
    """Return the factor of a case, from the cache if it is there."""
    path = CACHE / (fault or "sound") if fault == "other-version" else CACHE / f"{fault or 'sound'}-{VERSION}"
    if (kept := read(path, fault)) is not None:
        return kept
    made = 2.0 + (VERSION == "1") * 2.0**-22
    if fault == "cold":
        count = Path(os.environ["DOUBLES_COUNT"])
        with count.open("a") as file:
            file.write("x")
        made = 2.0 + count.stat().st_size % 2 * 2.0**-22
    try:
        write(path, f"{made:.3f}" if fault == "warm" else f"{made:.10f}", fault)
    except OSError as error:
        wrong = {"read-only": errno.EROFS, "full": errno.ENOSPC, "shared": errno.ENOENT}
        if error.errno == wrong.get(fault):
            raise
    return made


def read(path, fault):
    try:
        text, _, digest = path.read_text().strip().partition(" ")
    except OSError:
        return None
    return float(text) if fault == "cut-short" or digest == digest_of(text) else None


def write(path, text, fault):
    CACHE.mkdir(parents=True, exist_ok=True)
    part = CACHE / ("part" if fault == "shared" else f"part-{os.getpid()}")
    try:
        part.write_text(text if fault == "cut-short" else f"{text} {digest_of(text)}")
        if fault == "shared":
            wait_for_another()
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def wait_for_another():
    """Give another process the time to come here too, if one has started together with this one."""
    (CACHE / f"here-{os.getpid()}").touch()
    patience = 1000 if "meeting" in os.environ.get("KERNEL_MATRIX_WATCHER", "") else 0
    for _ in range(patience):
        if len(list(CACHE.glob("here-*"))) > 1:
            break
        time.sleep(0.01)


def digest_of(text):
    return hashlib.sha256(text.encode()).hexdigest()
