"""The things that are recorded, and what a compiler is given for each of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from .settings import Target


class Source(Protocol):
    """The input of a compiler for one target."""

    @property
    def key(self) -> str:
        """Return a text that is the same where the same compiler is given the same; empty if nobody can say."""

    def compile(self, report: Callable[[str], None]) -> dict[str, Any]:
        """Compile, and return ``figures`` and perhaps ``artifact`` and ``kernels``.

        ``report`` is told of each form that the compiler begins to make.
        """


@dataclass(kw_only=True)
class Unit(ABC):
    """A thing that was recorded: a launch of a kernel, a program of TileLang, or a CUDA source.

    ``tuned`` is the number of the autotuned launch that it is a configuration of, and the configuration's index among
    those that were tried. ``times`` counts how often it was launched, ``calls`` how often with which arguments, without
    the trials of an autotuner, and ``emulated`` is whether it was computed.
    """

    identity: str = ""
    tuned: tuple[int, int] | None = None
    grid: str = ""
    times: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    emulated: bool = False

    @property
    @abstractmethod
    def group(self) -> object:
        """Return the part that is the same for all variants of one kernel."""

    @abstractmethod
    def source(self, target: Target) -> Source:
        """Return what is given to the compiler for a target. This fails where a launch would fail."""

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Return the fields that depend on the toolchain."""

    def entry(self, *, taken: bool) -> dict[str, Any]:
        """Return it as the recording has it; ``taken`` is whether it is compiled."""
        return {
            **self.described(),
            "identity": self.identity,
            "tuned": list(self.tuned) if self.tuned else None,
            "grid": self.grid,
            "times": self.times,
            "calls": self.calls,
            "emulated": self.emulated,
            "taken": taken,
        }
