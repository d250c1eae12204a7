"""The questions of the kit to a framework, and what holds for all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from kernel_matrix.job.arrays import as_numpy
from kernel_matrix.job.inputs import Array
from kernel_matrix.kit.layouts import Bytes, Place, array_in

State = Mapping[str, "tuple[Callable[[], Any], Callable[[Any], Any] | None]"]  # what it is, and how it is set back
Call = Callable[[dict[str, Any]], dict[str, Any]]  # arrays in, results out, by their names


class Scratch(Protocol):
    """Memory that a kernel allocates while a block runs: poisoned and guarded."""

    def overran(self) -> list[str]:
        """Return the allocations past whose ends something was written."""

    def kept(self) -> int:
        """Return the bytes of this block, and of those since one with NaN, that are held when the results are gone."""


class NoScratch:
    """Nothing is known of what a kernel allocates."""

    def overran(self) -> list[str]:
        """Return none."""
        return []

    def kept(self) -> int:
        """Return none."""
        return 0


class Framework:
    """One framework. A base class: it has what NumPy's arrays in the memory of a CPU need."""

    name = ""
    title = ""
    lays = True  # whether the caller of a kernel chooses where its arrays lie
    watches = True  # whether what a kernel allocates can be poisoned
    why_not = ""  # where one of these is not so: the reason
    settings: Sequence[str] = ()  # of its state: what a library that is imported by the first call may change
    modes: Sequence[str] = ()  # other ways to call a forward, which must give the same
    layouts: Sequence[str] = ("offset", "strided", "transposed", "expanded")

    def memory(self, whole: Bytes, device: str) -> Any:  # noqa: ARG002
        """Return guarded memory on a device, with these bytes in it."""
        return whole

    def refill(self, memory: Any, whole: Bytes) -> None:
        """Put other bytes into guarded memory."""
        memory[:] = whole

    def view(self, memory: Any, place: Place) -> Any:
        """Return the array that lies in guarded memory."""
        return array_in(memory, place)

    def bytes_of(self, memory: Any) -> Bytes:
        """Return the bytes of guarded memory; of a CPU's no copy."""
        return np.asarray(memory)

    def given(self, values: Array, device: str) -> Any:  # noqa: ARG002
        """Return values as an array of the framework."""
        return values

    def taken(self, value: Any) -> Array:
        """Return an array of the framework as one of NumPy, with memory of its own."""
        return np.array(as_numpy(value))

    def extent(self, value: Any) -> tuple[int, int]:  # noqa: ARG002
        """Return where the memory of an array begins and ends; two zeros where that is not known."""
        return 0, 0

    def overlaps(self, value: Any) -> bool:  # noqa: ARG002
        """Return whether elements of an array lie in one place, as far as is known."""
        return False

    def oddness(self, value: Any) -> str:  # noqa: ARG002
        """Return what makes an array another one than a caller expects, whose numbers are right; or nothing."""
        return ""

    def marks(self, value: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return all of an array that is not its elements, by its name in a sentence."""
        return {}

    def begin(self) -> None:
        """Forget what a compiler of the framework has made for the cases before."""

    def insist(self) -> None:
        """Have a compiler of the framework fail where it would run plain code in a kernel's place."""

    def why_once(self, error: str) -> str:  # noqa: ARG002
        """Return why a backward may not run twice on one forward, if this error of the framework says so."""
        return ""

    def compiles(self) -> bool:
        """Return whether a compiler of the framework has made code in this process: other code in another mode."""
        return False

    @contextlib.contextmanager
    def scratch(self, kind: str, device: str, *, guarded: bool = True) -> Iterator[Scratch]:  # noqa: ARG002
        """Poison what is allocated until the block ends: with NaN, or with usual or subnormal numbers.

        Where it is not ``guarded``, the kernel is made of the framework's operators, and the C library poisons alone.
        """
        yield NoScratch()

    def noted(self) -> contextlib.AbstractContextManager[set[str]]:
        """Return a block that notes the framework's operators that compute, as far as they can be seen."""
        return contextlib.nullcontext(set())

    def threads(self) -> int | None:
        """Return how many threads an operator of the framework has; None where that is not known."""
        return None

    def mode(self, name: str, arrays: Sequence[Any]) -> contextlib.AbstractContextManager[Any]:  # noqa: ARG002
        """Return the block in which a kernel is called in this mode, with these arrays."""
        return contextlib.nullcontext()

    def in_mode(self, call: Call, name: str) -> Call:  # noqa: ARG002
        """Return how a kernel is called in this mode."""
        return call

    def state(self) -> State:
        """Return what of the framework belongs to the whole process."""
        return {}

    def wait(self, device: str) -> None:
        """Wait until a device has done its work."""

    def callable_of(self, value: Any, module: Mapping[str, Any] | None) -> Call | None:  # noqa: ARG002
        """Return how a value that is no plain function is called; None for a function."""
        return None

    def results(
        self,
        call: Call,
        arrays: dict[str, Any],
        asked: Sequence[str] = (),
        incoming: Mapping[str, Any] | None = None,
        *,
        times: int = 1,  # noqa: ARG002
    ) -> list[dict[str, Any]]:
        """Return what a call gives; or, with gradients that come in, the gradients that are asked for.

        With ``times`` the backward runs so often on one forward. Each run's gradients are an item of the list.
        """
        assert not asked
        assert not incoming
        return [call(arrays)]
