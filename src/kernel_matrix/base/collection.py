"""Put off Python's collection of garbage: after each many new objects it looks at every object of the process."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 100_000


@contextmanager
def many_objects_that_stay() -> Iterator[None]:
    """Look for no garbage while many objects are made that stay, and afterwards never look at them again.

    The plan of a million cases has some million objects. To look at them again and again takes as long as to make them.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
        if gc.get_count()[0] > _MANY:
            gc.freeze()
            atexit.register(gc.unfreeze)  # what is frozen at the end looks like a leak to modules in C++
    finally:
        gc.enable()
