"""The memory of a launch as the reference has it: integers in place, floating-point numbers as float64 elsewhere."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from triton import language as tl

from . import numbers

_DTYPES = {
    "torch.float64": tl.float64,
    "torch.float32": tl.float32,
    "torch.float16": tl.float16,
    "torch.bfloat16": tl.bfloat16,
}
_HALF_STEP = 2.0**-24  # of fp32: one rounding error


class OutsideError(Exception):
    """A kernel uses an address that is in no tensor of the launch."""


class Region:
    """The storage of one tensor or of several: its bytes, and its numbers if they are floating-point ones.

    ``name`` is the argument that the tensor is.
    """

    def __init__(self, name: str, tensor: Any) -> None:
        storage = tensor.untyped_storage()
        self.name, self.dtype = name, str(tensor.dtype)
        self.base, self.size = storage.data_ptr(), storage.nbytes()
        self.bytes = np.frombuffer((ctypes.c_char * self.size).from_address(self.base), np.uint8)
        self.kind = _DTYPES.get(self.dtype)
        self.values = None if self.kind is None else numbers.of_bits(self.bytes.copy(), self.kind)
        self.read, self.written, self.inside = np.zeros((3, self.size // tensor.element_size()), bool)

    def enclose(self, tensor: Any) -> None:
        """Write down that a tensor has these elements: others of the storage are in no argument."""
        if not isinstance(tensor, torch.Tensor) or self.size != self.inside.size * tensor.element_size():
            self.inside[:] = True  # another dtype's view, or an object of the program's own that has a tensor's memory
            return
        if any(size > 1 and not stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)):
            self.inside[:] = True  # the kernel itself steps through the storage
            return
        places = np.array(tensor.storage_offset())
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
            places = places[..., None] + np.arange(size) * stride
        self.inside[places] = True

    def nudge(self) -> None:
        """Let every number be off by one rounding error of fp32, up or down."""
        if self.values is not None:
            signs = np.random.default_rng(self.values.size).choice([-1.0, 1.0], self.values.size)
            self.values *= 1 + signs * _HALF_STEP

    def array(self, dtype: tl.dtype, kind: Any) -> Any:
        """Return the elements as a pointer to the dtype has them.

        Raises:
            NotImplementedError: the tensor has floating-point numbers, or not, and the pointer is of the other kind.
        """
        if self.values is not None and dtype == self.kind:
            return self.values
        if self.values is not None or dtype.is_floating():
            raise NotImplementedError(f"a tensor of {self.dtype} is used as {dtype}")
        return self.bytes.view(kind)

    def write_back(self) -> None:
        """Write the numbers that were changed into the memory, rounded to its dtype."""
        if self.values is not None and self.kind is not None:
            bits = numbers.to_bits(self.values[self.written], self.kind)
            self.bytes.view(bits.dtype)[self.written] = bits


def regions_of(arguments: Iterable[tuple[str, Any]]) -> list[Region]:
    """Return the storages of the tensors among the arguments, each once."""
    regions: dict[int, Region] = {}
    for name, tensor in arguments:
        start = tensor.untyped_storage().data_ptr()
        if tensor.numel() and start not in regions:
            regions[start] = Region(name, tensor)
        if tensor.numel():
            regions[start].enclose(tensor)
    return list(regions.values())


def tensors_in(bound: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the tensors among the arguments of a launch by name, also tensors in tuples and wrapped ones."""
    for name, value in bound.items():
        if isinstance(value, tuple):
            yield from tensors_in({f"{name}_{index}": item for index, item in enumerate(value)})
        elif hasattr(value, "untyped_storage"):
            yield name, value
        elif hasattr(value, "base"):  # another dtype's view, or a descriptor
            yield from tensors_in({name: value.base})


class Memory:
    """All storages of a launch, by address."""

    def __init__(self, regions: list[Region]) -> None:
        self.regions = regions

    def parts(self, pointers: Any, mask: Any, dtype: tl.dtype, kind: Any) -> Iterator[tuple[Any, Any, Any, Region]]:
        """Yield the elements that are meant: their array, their places in it, which pointers they are, and the region.

        Raises:
            OutsideError: a pointer is in no storage.
        """
        rest = np.flatnonzero(mask)
        flat = pointers.reshape(-1)
        size = np.uint64(max(1, dtype.primitive_bitwidth // 8))
        while rest.size:
            address = int(flat[rest[0]])
            region = next((one for one in self.regions if one.base <= address < one.base + one.size), None)
            if region is None:
                raise OutsideError(f"an address of {dtype} is in no tensor of the launch")
            inside = (flat[rest] >= region.base) & (flat[rest] < region.base + region.size)
            chosen, rest = rest[inside], rest[~inside]
            places = ((flat[chosen] - np.uint64(region.base)) // size).astype(np.int64)
            yield region.array(dtype, kind), places, chosen, region
