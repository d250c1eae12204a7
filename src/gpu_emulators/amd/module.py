"""A loaded code object, whose kernels are launched on PyTorch's tensors in the memory of this process."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from gpu_emulators.amd.code_object import Argument, read
from gpu_emulators.amd.launch import Program
from gpu_emulators.common.errors import EmulatorError, FoundError
from gpu_emulators.common.memory import Memory, memory_of

_POINTER = 8


class Module:
    """The kernels of one code object. Each is made ready at its first launch."""

    def __init__(self, data: bytes, target: str) -> None:
        """Read the code object.

        Raises:
            EmulatorError: it is none.
        """
        self._code = read(data)
        self._target = target
        self._programs: dict[str, Program] = {}

    def parameters(self, kernel: str) -> list[Argument]:
        """Return the arguments that a launch gives to a kernel, in their order.

        Raises:
            EmulatorError: there is no such kernel.
        """
        return [one for one in self._program(kernel).kernel.arguments if not one.is_hidden]

    def launch(
        self, kernel: str, grid: Sequence[int], threads: int | Sequence[int], values: Sequence[Any], shared: int = 0
    ) -> None:
        """Run a kernel over a grid of workgroups; ``shared`` are the bytes of LDS that only the launch asks for.

        A value is a tensor, None for a tensor that is not given, or a value of ctypes.

        Raises:
            EmulatorError: the values do not fit the kernel, or it has no end.
            FoundError: the kernel did something that is a fault.
        """
        parameters = self.parameters(kernel)
        if len(parameters) != len(values):
            raise EmulatorError(f"{kernel} has {len(parameters)} arguments, and is given {len(values)}")
        pairs = enumerate(zip(parameters, values, strict=True), 1)
        given = [_argument(one, number, value) for number, (one, value) in pairs]
        found = self._program(kernel).launch(grid, threads, given, shared=shared).findings
        if found:
            raise FoundError(found)

    def _program(self, kernel: str) -> Program:
        if kernel not in self._programs:
            self._programs[kernel] = Program(self._code, self._target, kernel)
        return self._programs[kernel]


def _argument(parameter: Argument, number: int, value: Any) -> Memory | bytes:
    if value is None:
        return bytes(_POINTER)
    if isinstance(value, torch.Tensor):
        return memory_of(parameter.name or f"argument {number}", value)
    return ctypes.string_at(ctypes.addressof(value), ctypes.sizeof(value))
