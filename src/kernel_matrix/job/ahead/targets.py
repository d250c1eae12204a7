"""Describe the targets that code is made for: what compilers need to know, and the limits of a launch.

No compiler checks the limits; a launch would. NVIDIA's are from the table of compute capabilities in the CUDA C++
Programming Guide (shared memory less the 1 KiB of a block that the system keeps), AMD's from the ISA reference guides
and, for gfx1250, from LLVM's and Triton's tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_KIB = 1024
_THREADS = 1024  # of a block, on every target
_SHARED = {
    "sm_70": 96 * _KIB,
    "sm_75": 64 * _KIB,
    "sm_80": 163 * _KIB,
    "sm_86": 99 * _KIB,
    "sm_87": 163 * _KIB,
    "sm_89": 99 * _KIB,
    "sm_90": 227 * _KIB,
    "sm_100": 227 * _KIB,
    "sm_103": 227 * _KIB,
    "sm_110": 227 * _KIB,
    "sm_120": 99 * _KIB,
    "sm_121": 99 * _KIB,
    "gfx950": 160 * _KIB,
    "gfx1250": 320 * _KIB,
}
_OF_AMD = 64 * _KIB  # where the table has no other number


class LimitError(RuntimeError):
    """A target cannot launch a kernel that compiles for it."""


@dataclass(frozen=True)
class Target:
    """A target by its name, such as ``sm_90`` or ``gfx942``."""

    name: str

    @property
    def backend(self) -> str:
        """Triton's name of the vendor's compiler."""
        return "cuda" if self.name.startswith("sm_") else "hip"

    @property
    def arch(self) -> int | str:
        """The architecture as Triton names it."""
        return int(self.name.removeprefix("sm_")) if self.backend == "cuda" else self.name

    @property
    def warp(self) -> int:
        """The threads of a warp."""
        return 64 if self.name.startswith("gfx9") else 32

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability of an NVIDIA target."""
        return divmod(int(self.name.removeprefix("sm_")), 10)

    @property
    def shared(self) -> int | None:
        """The bytes of shared memory that a block can have; None for one of NVIDIA that the table does not have."""
        return _SHARED.get(self.name, _OF_AMD if self.backend == "hip" else None)

    def hold(self, figures: Mapping[str, float]) -> None:
        """Check that the target can launch a kernel with these figures.

        Raises:
            LimitError: it cannot.
        """
        for name, most, words in (
            ("threads", _THREADS, "a block has {} threads"),
            ("shared", self.shared, "a block needs {} bytes of shared memory"),
        ):
            if most is not None and figures.get(name, 0) > most:
                raise LimitError(f"{words.format(f'{figures[name]:g}')}, and {self.name} has {most}")


def target_named(name: str) -> Target:
    """Return a target.

    Raises:
        ValueError: the name is none of an NVIDIA or AMD GPU.
    """
    if not re.fullmatch(r"sm_\d{2,3}|gfx[0-9a-f]{3,4}", name):
        raise ValueError(f"{name!r} is no target of NVIDIA (sm_90) or AMD (gfx942)")
    return Target(name)
