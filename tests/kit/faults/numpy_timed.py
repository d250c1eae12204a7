"""Two layer norms in NumPy that stop computing when they have run for a while, as they do where they are timed."""

import itertools
import threading

import numpy_norm


def _number(calls):
    """Return the number of a call; one in a thread that is started for it has none, as how many there are varies."""
    return next(calls) if threading.current_thread() is threading.main_thread() else 0


def stops_computing(x, gain, out, calls=itertools.count(1)):  # noqa: B008
    if _number(calls) < 700:
        numpy_norm.good(x, gain, out)


def keeps_the_last(x, gain, out, calls=itertools.count(1), kept=[]):  # noqa: B006, B008
    if _number(calls) < 700 or not kept or kept[0].shape != out.shape:
        numpy_norm.good(x, gain, out)
        kept[:] = [out.copy()]
    out[...] = kept[0]
