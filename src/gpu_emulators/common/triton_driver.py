"""A driver for Triton whose GPU is an emulator: kernels that a program launches run on this CPU, on its own tensors.

Triton compiles for the target as it would for a card, and calls this driver in place of the vendor's. Tensors stay on
the CPU.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import triton
from triton.backends.driver import DriverBase

from gpu_emulators.common.errors import EmulatorError, FoundError
from gpu_emulators.common.memory import SPOILED, Memory, memory_of

MOST_THREADS = 1024
_POINTER = 8
_ALIGN = 256  # of scratch memory
_INTEGERS = {"i1": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H", "u32": "I", "u64": "Q"}
_FLOATS = {"fp32": "f", "f32": "f", "fp16": "e", "fp64": "d"}


class Utils:
    """The answers to what Triton asks of a driver, apart from launches."""

    def __init__(self, target: str) -> None:
        """Keep the target."""
        self._target = target


class Launcher:
    """The launches of one compiled kernel."""

    def __init__(self, source: Any, metadata: Any) -> None:
        names = list(source.fn.arg_names)
        constants = {key[0] if isinstance(key, tuple) else names.index(key) for key in source.constants}
        self._names = names
        self._types = {names.index(name): kind for name, kind in source.signature.items()}
        self._passed = [place for place in self._types if place not in constants and self._types[place] != "constexpr"]
        self._shared = metadata.shared
        self._threads = metadata.num_warps * metadata.warp_size
        self._scratch = getattr(metadata, "global_scratch_size", 0) or 0  # bytes of memory for each block

    def __call__(self, x: int, y: int, z: int, _: Any, program: Any, __: Any, metadata: Any, *rest: Any) -> None:
        """Launch, between the hooks, and raise the faults that were found."""
        enter, leave, *arguments = rest
        if enter is not None:
            enter(metadata)
        given = [argument_of(self._names[place], self._types[place], arguments[place]) for place in self._passed]
        size = max(x * y * z * self._scratch, 512)  # large enough to be aligned in its window
        scratch = torch.full((size + _ALIGN,), SPOILED, dtype=torch.uint8)
        scratch = scratch[-scratch.data_ptr() % _ALIGN :][:size]
        given += [memory_of("scratch memory", scratch) if self._scratch else bytes(_POINTER), bytes(_POINTER)]
        ran = program.launch((x, y, z), self._threads, given, shared=self._shared)
        if ran.findings:
            raise FoundError(ran.findings)
        if leave is not None:
            leave(metadata)


class EmulatedDriver(DriverBase):  # type: ignore[misc]  # triton has no types
    """Triton's driver of one emulated target. The class of a vendor has the first four names, and the target."""

    targets: Sequence[str] = ()
    first_device = 0  # Triton keeps the kernels of each number of a device apart
    utils_of: Callable[[str], Any]
    launcher: Any = Launcher

    def __init__(self, target: str) -> None:
        """Make the driver of a target.

        Raises:
            EmulatorError: the emulator has no such target.
        """
        if target not in self.targets:
            raise EmulatorError(f"there is no target {target!r}; there are {', '.join(self.targets)}")
        super().__init__()
        self._target = target
        self.utils = type(self).utils_of(target)
        self.launcher_cls = self.launcher

    @classmethod
    def is_active(cls) -> bool:
        """Return that Triton does not choose this driver by itself."""
        return False

    def map_python_to_cpp_type(self, kind: str) -> str:
        """Return the type as it is: no launcher is compiled."""
        return kind

    def get_current_device(self) -> int:
        """Return the number of the device."""
        return self.first_device + self.targets.index(self._target)

    def get_current_stream(self, _: int) -> int:
        """Return the only stream: a launch ends before it returns."""
        return 0

    def get_active_torch_device(self) -> torch.device:
        """Return where the tensors are."""
        return torch.device("cpu")

    def get_benchmarker(self) -> Callable[..., Any]:
        """Return a function that measures nothing: the first configuration of an autotuner is taken."""
        return lambda call, **_: (call(), [1.0] * 3)[1]


def argument_of(name: str, kind: str, value: Any) -> Memory | bytes:
    """Return an argument as the kernel gets it."""
    if kind.startswith("*"):
        if isinstance(value, torch.Tensor):
            return memory_of(name, value)
        raise EmulatorError(f"the argument {name} is a pointer, and no tensor")
    if kind in _INTEGERS:
        return struct.pack(f"<{_INTEGERS[kind]}", value)
    if kind in _FLOATS:
        return struct.pack(f"<{_FLOATS[kind]}", value)
    if kind == "bf16":
        return struct.pack("<f", value)[2:]
    raise EmulatorError(f"the argument {name} is of the type {kind}, which is not known")


@contextmanager
def active(driver: EmulatedDriver) -> Iterator[EmulatedDriver]:
    """Let Triton launch with this driver inside this block."""
    config = triton.runtime.driver
    before = config._active
    config.set_active(driver)
    try:
        yield driver
    finally:
        config._active = before
