"""The parts that a package's adapter gives the benchmark: its operators, its contenders, and the clock of a device.

``adapter.py`` in the folder that matrix.yaml names has a function ``adapter(device)``, which returns an
:class:`Adapter` for ``cpu`` or the framework's word for a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kernel_matrix.job.budget import Pair

Run = Callable[[], object]


class AbsentError(Exception):
    """A contender is not there: not installed, or it does not have this operator. The text says which."""


@dataclass(frozen=True)
class Distance:
    """The distance of an output from its golden; ``finite`` is false where an element is NaN or infinite."""

    error: Pair
    finite: bool = True


@dataclass(frozen=True)
class Yardstick:
    """The figures that the budget of an output follows from, as :func:`kernel_matrix.job.budget.limits` takes it."""

    floor: Pair
    conditioning: Pair
    largest: float
    itemsize: int
    unit: float = 1.0
    steps: float = 1.0


class Contender(Protocol):
    """One implementation of a subject."""

    def distances(self) -> Mapping[str, Distance]:
        """Run once, into outputs that were filled with NaN where it writes into given ones; compare each output."""

    def runs(self, copies: int) -> Sequence[Run]:
        """Return one run for each of so many copies of the inputs and outputs."""


class Subject(Protocol):
    """One operator in one direction with one shape on one device.

    ``traffic`` are the bytes that no implementation can do without: each input read once, each output written once.
    ``copy_bytes`` are the bytes of one copy of the inputs and outputs; ``x_bytes`` the bytes of its main input.
    """

    @property
    def traffic(self) -> int: ...

    @property
    def copy_bytes(self) -> int: ...

    @property
    def x_bytes(self) -> int: ...

    def yardsticks(self) -> Mapping[str, Yardstick]:
        """Return what the budget of each output follows from."""

    def contender(self, name: str) -> Contender:
        """Return a contender.

        Raises:
            AbsentError: it is not there.
        """


class Clock(Protocol):
    """The way in which runs are timed on a device."""

    @property
    def method(self) -> str:
        """Say in a sentence how it times."""

    @property
    def cache_bytes(self) -> int:
        """The bytes of the device's last cache."""

    @property
    def most_copies(self) -> int:
        """The number of copies of the inputs that can be used in turn."""

    def sampler(self, runs: Sequence[Run]) -> Run:
        """Make the runs ready, and return a function that returns the seconds of one of them each time."""

    def host_seconds(self, runs: Sequence[Run], /) -> float | None:
        """Return the seconds until a run is issued; None where issuing and running are the same."""

    def more(self, runs: Sequence[Run], /) -> Mapping[str, float]:
        """Return other figures of these runs."""

    def copy(self, size: int) -> Run:
        """Return a run that copies so many bytes on the device."""

    def state(self) -> Mapping[str, str]:
        """Return what is known of the device now: clocks, throttling."""

    def disturbance(self) -> str:
        """Return what disturbs the device since the last call; empty if nothing is known to."""

    def release(self) -> None:
        """Give the memory of the last subject back."""


class Adapter(Protocol):
    """The part of the benchmark that a package brings, for one device."""

    @property
    def clock(self) -> Clock: ...

    def contender_of(self, backend: str) -> str:
        """Return the name of the contender that is a backend of the package."""

    def subject(self, op: str, direction: str, axes: Mapping[str, Any]) -> Subject: ...

    def facts(self) -> Mapping[str, str]:
        """Return facts of this process, such as the number of threads."""
