"""The arrays of one call of a kernel, in guarded memory where the framework lets its caller choose their place."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kernel_matrix.job.inputs import Array
from kernel_matrix.kit.frameworks.base import Framework
from kernel_matrix.kit.layouts import PACKED, UNWRITTEN, Place, laid, of_rows, place_of, repeated

Kernel = Mapping[str, Any]  # what the process that compares says of a kernel: see running.py

FILLS = {"": UNWRITTEN, "nan": UNWRITTEN, "small": 0x01, "usual": 0x3F}  # of outputs that nobody has written
INTO = "into "  # and the name of an output that the kernel writes: an input may have the same name
_PLACES = 8  # sets of arrays that are kept: later runs on equal shapes have the same addresses

_laid: dict[Any, dict[str, Any]] = {}  # guarded memory


class Laid(NamedTuple):
    """One array in guarded memory."""

    memory: Any
    array: Any
    place: Place


class Arrays:
    """The arrays of one call."""

    def __init__(self, frame: Framework, laid_there: Mapping[str, Laid], given: Mapping[str, Any]) -> None:
        """Take the arrays that lie in guarded memory, and those that the framework has allocated."""
        self.frame, self.laid = frame, laid_there
        self.by_name = {name: one.array for name, one in laid_there.items()} | dict(given)
        self.called_with: dict[str, Any] = {}

    def marks(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return what is not the elements of the arrays of the call."""
        return {name: self.frame.marks({**self.by_name, **self.called_with}[name]) for name in names}

    def outputs(self, kernel: Kernel) -> dict[str, Any]:
        """Return the arrays that the kernel writes."""
        return {name: self.by_name[INTO + name] for name in kernel["writes"]}

    def written(self, kernel: Kernel) -> dict[str, Array]:
        """Return a copy of the bytes of the arrays that the kernel writes or changes."""
        names = [name for name in self.laid if name.startswith(INTO) or name in kernel["in_place"]]
        return {f"memory {name}": np.array(self.frame.bytes_of(self.laid[name].memory)) for name in names}

    def refill(self, wholes: Mapping[str, Array]) -> None:
        """Put bytes back into the memory of arrays."""
        for name, whole in wholes.items():
            self.frame.refill(self.laid[name.removeprefix("memory ")].memory, whole.view(np.uint8))

    def back(self) -> dict[str, Array]:
        """Return all bytes of them, with the guards where there are any; not of an array that is gone.

        They are sent before anything else runs, so those of a CPU are no copies.
        """
        back: dict[str, Array] = {f"memory {name}": self.frame.bytes_of(one.memory) for name, one in self.laid.items()}
        for name, one in self.by_name.items():
            if name not in self.laid:
                with contextlib.suppress(RuntimeError):  # some frameworks let a kernel give an input's memory away
                    back[f"memory {name}"] = self.frame.taken(one)
        return back


def arrays_of(
    arrays: Mapping[str, Array],
    kernel: Kernel,
    frame: Framework,
    secret: int,
    layout: str,
    fresh: bool,
    fill: int,
    rows: int = 1,
) -> Arrays:
    """Lay the inputs and the outputs that the kernel writes in guarded memory, where the framework lets us."""
    if not frame.lays:
        arrays = repeated(arrays, kernel["by_row"], rows)
        return Arrays(frame, {}, {name: frame.given(one, kernel["device"]) for name, one in arrays.items()})
    wholes, places = {}, {}
    for name, values in arrays.items():
        shape = of_rows(values.shape, rows if name in kernel["by_row"] else 1)
        places[name] = place_of(shape, values.dtype, layout_of(name, kernel, layout))
        wholes[name] = laid(places[name], values, secret)
    for name in kernel["writes"]:
        (shape, kind), slot = kernel["outputs"][name], INTO + name
        places[slot] = place_of(tuple(shape), np.dtype(kind), layout_of(slot, kernel, layout))
        wholes[slot] = laid(places[slot], None, secret, fill)
    key = (kernel["function"], kernel["device"], *((name, place) for name, place in places.items()))
    kept = None if fresh else _laid.get(key)
    memory = kept or {name: frame.memory(whole, kernel["device"]) for name, whole in wholes.items()}
    if not fresh and kept is None:
        if len(_laid) >= _PLACES:
            _laid.clear()
        _laid[key] = memory
    # The views are new in each run: a kernel may give one of them other memory.
    there = {name: Laid(one, frame.view(one, places[name]), places[name]) for name, one in memory.items()}
    made = Arrays(frame, there, {})
    if kept is not None:
        made.refill(wholes)
    return made


def layout_of(name: str, kernel: Kernel, layout: str) -> str:
    """Return how an array lies: of all rows in one place only an input by rows can, which nobody writes."""
    written = name.startswith(INTO) or name in kernel["in_place"]
    return PACKED if layout == "expanded" and (written or name not in kernel["by_row"]) else layout
