"""The ranges of memory that a launch is given, and its findings: for machine code and for PTX."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_emulators.common.findings import Finding, Place
from gpu_emulators.common.library import Region

if TYPE_CHECKING:
    import torch

LIMIT = 300_000_000  # instructions of the waves of one workgroup
SPOILED = 0x7F  # the byte in registers and shared memory that nobody wrote: a large number in fp32, NaN in fp16
MOST_FINDINGS = 64
_WINDOW = 40  # bits: each range of memory has a window of addresses for itself


@dataclass(frozen=True)
class Memory:
    """A range of this process's memory that a kernel may use, by the name that findings have for it."""

    name: str
    address: int
    size: int
    writable: bool = True

    @classmethod
    def of(cls, name: str, array: np.ndarray[Any, Any], *, writable: bool = True) -> Memory:
        """Return the memory of an array."""
        return cls(name, array.ctypes.data, array.nbytes, writable)


@dataclass(frozen=True)
class Ran:
    """The instructions that the waves of a launch executed, and the faults that were found."""

    executed: int
    findings: tuple[Finding, ...]


def memory_of(name: str, tensor: torch.Tensor) -> Memory:
    """Return the memory of a tensor, from its first element to its last."""
    size = 0
    if tensor.numel():
        steps = zip(tensor.shape, tensor.stride(), strict=True)
        size = int((sum((length - 1) * stride for length, stride in steps) + 1) * tensor.element_size())
    return Memory(name, tensor.data_ptr(), size)


def in_windows(
    arguments: Sequence[Memory | bytes],
) -> tuple[list[Region], list[Place], list[bytes]]:
    """Return the memory of the arguments, each range in a window of its own, and the arguments as the kernel's."""
    regions: list[Region] = []
    places: list[Place] = []
    given: list[bytes] = []
    for number, value in enumerate(arguments, 1):
        if isinstance(value, bytes):
            given.append(value)
            continue
        base = (number << _WINDOW) + _over_border(value)
        regions.append(Region(base, value.size, value.address, int(value.writable)))
        places.append(Place(value.name, base, value.size))
        given.append(base.to_bytes(8, "little"))
    return regions, places, given


def _over_border(memory: Memory) -> int:
    """Return where in its window memory begins: aligned as it is, and across 4 GiB, as a lost carry shows there."""
    align = 256 if memory.size >= 512 else 16
    return (1 << 32) - memory.size // 2 // align * align - align + memory.address % align


def identical(buffer: Any) -> Region:
    """Return memory that a kernel sees at the address where it is, and may not write."""
    address = ctypes.addressof(buffer)
    return Region(address, ctypes.sizeof(buffer), address, 0)


def place_of(name: str, buffer: Any) -> Place:
    """Return the place of such memory, by the name that findings have for it."""
    return Place(name, ctypes.addressof(buffer), ctypes.sizeof(buffer), reach=1 << 16)
