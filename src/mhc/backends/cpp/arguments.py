"""The arguments of launches, in memory where a driver reads them."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from mhc.backends.cpp.hopper import TensorMap


class Memory(NamedTuple):
    """The arguments of one launch: ``pointers`` is what ``cuLaunchKernel`` takes."""

    buffer: Any
    pointers: Any


class Arguments:
    """The arguments of a launch, each a tensor, None for a tensor that is not given, or a value of ctypes.

    ``addresses`` are the addresses of the tensors that a caller hands over. The next time there may be others in their
    places, unless ``known`` is false: then an argument points to what the caller did not hand over. No tensor is kept
    alive.
    """

    def __init__(self, arguments: Sequence[Any], addresses: Sequence[int] = ()) -> None:
        self.known = len(set(addresses)) == len(addresses)
        self._maps: list[tuple[int, Callable[[int], TensorMap]]] = []
        self._others: list[Any] = []
        self._places, self._offsets, form = [], [], "@"
        count = len(addresses) + sum(isinstance(argument, TensorMap) for argument in arguments)
        for argument in arguments:
            form += "0P"  # the next one begins where a pointer may lie
            self._offsets.append(struct.calcsize(form))
            for code, value in _fields(argument):
                form += code
                if code == "P" and value in addresses:
                    self._places.append(addresses.index(value))
                elif isinstance(value, TensorMap) and value.address in addresses:
                    self._places.append(len(addresses) + len(self._maps))
                    self._maps.append((addresses.index(value.address), value.again))
                else:
                    self.known &= code != "P" or not value
                    self._places.append(count + len(self._others))
                    self._others.append(bytes(value) if isinstance(value, TensorMap) else value)
        self._struct = struct.Struct(form)
        self._free: list[Memory] = []

    def take(self, addresses: list[int]) -> Memory:
        """Return memory with the arguments for these addresses, until it is given back.

        A call of the driver lets other threads run, which may launch the same kernel.
        """
        try:
            memory = self._free.pop()
        except IndexError:
            memory = self._memory()
        maps = [bytes(again(addresses[place])) for place, again in self._maps]
        values = [*addresses, *maps, *self._others]
        self._struct.pack_into(memory.buffer, 0, *[values[place] for place in self._places])
        return memory

    def give_back(self, memory: Memory) -> None:
        """Let the next launch have the memory."""
        self._free.append(memory)

    def _memory(self) -> Memory:
        buffer = ctypes.create_string_buffer(max(1, self._struct.size))
        begin = ctypes.addressof(buffer)
        return Memory(buffer, (ctypes.c_void_p * len(self._offsets))(*(begin + offset for offset in self._offsets)))


def _fields(argument: Any) -> Iterator[tuple[str, Any]]:
    """Yield the codes of an argument's fields, as ``struct`` has them, and their values."""
    if argument is None or isinstance(argument, torch.Tensor):
        yield "P", 0 if argument is None else argument.data_ptr()
    elif isinstance(argument, TensorMap):
        yield f"{ctypes.sizeof(TensorMap)}s", argument
    elif isinstance(argument, ctypes.Structure):
        for name, kind in argument._fields_:  # type: ignore[misc]
            yield kind._type_, getattr(argument, name) or 0
    else:
        yield argument._type_, argument.value
