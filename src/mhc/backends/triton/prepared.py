"""Launches without the work that Triton and Python do on the host for each one: of a call that was made before.

Triton looks at every argument of a launch to find the binary for it, and the code before it decides grids and scratch
memory. Both are the same for every call with tensors of the same shapes and dtypes that are aligned as PyTorch's
allocator aligns them. Such a call is recorded once, and is then a list of binaries with the places of their arguments.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from triton import knobs
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from mhc.backends import stage
from mhc.backends.triton.launch import Launch

_ALIGNMENT = 16  # bytes; a pointer that is no multiple of them makes another binary
_APART = 512  # bytes; scratch memory begins at a multiple of them, as PyTorch's allocator has it
_ONES = ((1, 1, 1), (1, 1), (1,), ())  # what a grid of fewer than three dimensions lacks


class Prepared:
    """The launches of one operator for one specialisation on one device."""

    def __init__(self, bare: bool) -> None:
        """Take ``bare`` for whether the binaries depend on nothing else than the specialisation and the alignment."""
        self._bare = bare
        self._compiled = False
        self._ready: list[Any] | None = None

    def launch(
        self, launches: Callable[[], Sequence[Launch]], tensors: Sequence[torch.Tensor], device: torch.device
    ) -> Call | None:
        """Launch one after the other on the current stream of ``device``, which is the current one.

        ``tensors`` are those that the caller handed over, and others are scratch. What is returned is the call for
        tensors of the same shapes at other addresses: None the first time, and where there is none.
        """
        addresses = [each.data_ptr() for each in tensors]
        aligned = self._bare and _are_aligned(addresses)
        if aligned and self._ready is not None:
            call = self._recorded(launches(), tensors, device)
            if call is not None and call.launch(addresses):
                return call
        made = launches()
        if self._ready is None and (aligned or not self._compiled):
            # A launch would compile too; done apart once, so that a failure says which of the two it was.
            with stage("compile"):
                binaries = [_compile(one) for one in made]
            self._compiled = True
            self._ready = binaries if aligned else None
        with stage("launch"):
            for kernel, config, grid, arguments in made:
                kernel[grid](*arguments, **config.constants, **config.options)
        return None

    def _recorded(
        self, launches: Sequence[Launch], tensors: Sequence[torch.Tensor], device: torch.device
    ) -> Call | None:
        """Return the call, or None where its arguments cannot be told apart."""
        assert self._ready is not None
        known, memory = {id(each) for each in tensors}, {_memory(each) for each in tensors}
        scratch = [each for one in launches for each in one.arguments if _is_scratch(each, known)]
        if len(known) < len(tensors) or any(_memory(each) in memory for each in scratch):
            return None
        return Call(self._ready, launches, tensors, scratch, device)


def _are_aligned(addresses: Sequence[int]) -> bool:
    return functools.reduce(operator.or_, addresses) % _ALIGNMENT == 0


def _are_watched() -> bool:
    """Return whether a profiler has a hook in Triton's launches; a chain of none is none."""
    enter, leave = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
    return bool(getattr(enter, "calls", enter) or getattr(leave, "calls", leave))


def _compile(one: Launch) -> Any:
    kernel, config, grid, arguments = one
    if not isinstance(kernel, JITFunction):
        return None
    compiled = kernel.warmup(*arguments, grid=grid, **config.constants, **config.options)
    return compiled.result() if hasattr(compiled, "result") else compiled


def _is_scratch(argument: Any, known: set[int]) -> bool:
    return isinstance(argument, torch.Tensor) and id(argument) not in known and argument.numel() > 0


def _memory(tensor: torch.Tensor) -> int:
    """Return where the memory begins that a tensor is in."""
    return tensor.untyped_storage().data_ptr()


class Call:
    """The launches of one call, whose arguments are places in one list.

    The list has the addresses of the tensors that the caller hands over, those in scratch memory, and everything else
    that a launcher takes behind the grid and the stream.
    """

    def __init__(
        self,
        binaries: Iterable[Any],
        launches: Sequence[Launch],
        tensors: Sequence[torch.Tensor],
        scratch: Sequence[torch.Tensor],
        device: torch.device,
    ) -> None:
        self._device = device
        self._places = {id(tensor): index for index, tensor in enumerate(tensors)}
        self._size, self._offsets = 0, []
        begins: dict[int, int] = {}  # of each allocation in the one that takes the place of all
        for each in scratch:
            if id(each) not in self._places:
                if _memory(each) not in begins:
                    begins[_memory(each)] = self._size
                    self._size += -(-each.untyped_storage().nbytes() // _APART) * _APART
                self._places[id(each)] = len(self._places)
                self._offsets.append(begins[_memory(each)] + each.data_ptr() - _memory(each))
        self._others: list[Any] = []
        self._launches = [self._made(*each) for each in zip(binaries, launches, strict=True)]

    def _place(self, value: Any) -> int:
        if id(value) in self._places:
            return self._places[id(value)]
        self._others.append(0 if isinstance(value, torch.Tensor) else value)  # a tensor of no elements
        return len(self._places) + len(self._others) - 1

    def _made(self, compiled: Any, one: Launch) -> tuple[Any, tuple[int, ...], Callable[[Any], tuple[Any, ...]]]:
        """Return the launcher, the grid, and what gets the launcher's arguments behind the stream out of the list."""
        names = one.kernel.arg_names[len(one.arguments) :]
        run = compiled.run  # loads the binary
        fixed = (compiled.function, compiled.packed_metadata, None, None, None)
        values = (*fixed, *one.arguments, *(one.config.constants[name] for name in names))
        return run, (*one.grid, *_ONES[len(one.grid)]), operator.itemgetter(*map(self._place, values))

    def launch(self, addresses: list[int]) -> bool:
        """Launch with the addresses of other tensors, in the order of those that were recorded.

        Return whether that was done: not where an address needs other binaries, or a profiler watches.
        """
        if not _are_aligned(addresses) or _are_watched():
            return False
        try:
            values = addresses + self._others
            if self._size:
                room = torch.empty(self._size, dtype=torch.uint8, device=self._device)
                begin = room.data_ptr()
                values = [*addresses, *(begin + offset for offset in self._offsets), *self._others]
            stream = driver.active.get_current_stream(self._device.index)
            for run, grid, behind in self._launches:
                run(*grid, stream, *behind(values))
        except Exception as error:
            error.stage = "launch"  # type: ignore[attr-defined]
            raise
        return True
