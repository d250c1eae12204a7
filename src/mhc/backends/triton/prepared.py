"""Launches without the work that Triton does on the host for each one: of a device function that is compiled.

Triton looks at every argument of a launch to find the binary for it. Here the binary is known after the first launch:
the later ones have the same specialisation, tensors of the same dtypes that are aligned as PyTorch's allocator aligns
them, and integers that no device function is specialised for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from triton import knobs
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from mhc.backends import stage
from mhc.backends.triton.launch import Launch

_ALIGNMENT = 16  # bytes; a pointer that is no multiple of them makes another binary
_NO_TENSORS = frozenset({type(None), int, float, str, bool, tuple, list})
_ONES = ((1, 1, 1), (1, 1), (1,), ())  # what a grid of fewer than three dimensions lacks


class Prepared:
    """The launches of one operator for one specialisation on one device."""

    def __init__(self, bare: bool) -> None:
        """Take ``bare`` for whether the binaries depend on nothing else than the specialisation and the alignment."""
        self._bare = bare
        self._compiled = False
        self._ready: list[_Binary] | None = None

    def launch(self, launches: Sequence[Launch], tensors: Sequence[Any], device: torch.device) -> None:
        """Launch one after the other on the current stream of ``device``, which is the current one.

        ``tensors`` are those that the caller handed over; scratch is always aligned.
        """
        aligned = self._bare and _are_aligned(tensors)
        if aligned and self._ready is not None:
            try:
                stream = driver.active.get_current_stream(device.index)
                hooks = _hook(knobs.runtime.launch_enter_hook), _hook(knobs.runtime.launch_exit_hook)
                for binary, (_, _, grid, arguments) in zip(self._ready, launches, strict=True):
                    binary.launch(grid, stream, hooks, arguments)
            except Exception as error:
                error.stage = "launch"  # type: ignore[attr-defined]
                raise
            return
        if aligned or not self._compiled:
            # A launch would compile too; done apart once, so that a failure says which of the two it was.
            with stage("compile"):
                binaries = [_compile(one) for one in launches]
            self._compiled = True
        with stage("launch"):
            for kernel, config, grid, arguments in launches:
                kernel[grid](*arguments, **config.constants, **config.options)
            if aligned:
                self._ready = [_Binary(compiled, one) for compiled, one in zip(binaries, launches, strict=True)]


def _are_aligned(values: Sequence[Any]) -> bool:
    # Types are compared first, as this runs at every launch: isinstance takes twice as long for what is no tensor.
    for value in values:
        if type(value) not in _NO_TENSORS and isinstance(value, torch.Tensor) and value.data_ptr() % _ALIGNMENT:
            return False
    return True


def _compile(one: Launch) -> Any:
    kernel, config, grid, arguments = one
    if not isinstance(kernel, JITFunction):
        return None
    compiled = kernel.warmup(*arguments, grid=grid, **config.constants, **config.options)
    return compiled.result() if hasattr(compiled, "result") else compiled


class _Binary:
    """One loaded binary, and the constants that its launcher wants after the arguments."""

    def __init__(self, compiled: Any, one: Launch) -> None:
        names = one.kernel.arg_names[len(one.arguments) :]
        self._compiled = compiled
        self._constants = tuple(one.config.constants[name] for name in names)
        self._run = compiled.run  # loads the binary
        self._function, self._metadata = compiled.function, compiled.packed_metadata

    def launch(self, grid: tuple[int, ...], stream: int, hooks: tuple[Any, Any], arguments: tuple[Any, ...]) -> None:
        enter, leave = hooks
        metadata = None
        if enter is not None:
            metadata = self._compiled.launch_metadata(grid, stream, *arguments, *self._constants)
        fixed = (stream, self._function, self._metadata, metadata, enter, leave)
        self._run(*grid, *_ONES[len(grid)], *fixed, *arguments, *self._constants)


def _hook(hook: Any) -> Any:
    """Return a hook of a profiler, and None for none of them and for a chain of none."""
    return hook if getattr(hook, "calls", hook) else None
