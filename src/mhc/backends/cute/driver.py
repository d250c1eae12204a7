"""Launch machine code by NVIDIA's driver, on PyTorch's current stream."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from mhc.backends import stage
from mhc.backends.cute.compiler import Program, cubin
from mhc.backends.cute.sizes import THREADS


class Launch(NamedTuple):
    """One kernel over a grid. An argument is a tensor, None for one that is not given, or a number of tokens."""

    program: Program
    grid: tuple[int, int, int]
    arguments: tuple[torch.Tensor | int | None, ...]


class LaunchError(RuntimeError):
    """The driver refused a call. The text has the driver's name of the reason."""


def run(launches: Sequence[Launch], device: torch.device, target: str | None) -> None:
    """Compile the kernels for ``device`` and launch them one after the other.

    Raises:
        ValueError: ``target`` is not what ``device`` is, or that is no GPU of NVIDIA's.
        LaunchError: a launch failed.
    """
    if device.type != "cuda" or torch.version.hip:
        raise ValueError("the cute backend runs on NVIDIA's GPUs only; without one there is compile()")
    major, minor = torch.cuda.get_device_capability(device)
    present = f"sm_{major}{minor}"
    if target not in (None, present):
        raise ValueError(f"cute: target is {target}, and the inputs are on {present}; for others there is compile()")
    with torch.cuda.device(device):
        stream = torch.cuda.current_stream(device).cuda_stream
        _enter(torch.cuda.current_device())
        functions = [_function(launch.program, present, torch.cuda.current_device()) for launch in launches]
        with stage("launch"):
            for launch, function in zip(launches, functions, strict=True):
                _launch(launch, function, stream)


def _launch(launch: Launch, function: Any, stream: int) -> None:
    addresses = [
        value.data_ptr() if isinstance(value, torch.Tensor) else 0 if value is None else value
        for value in launch.arguments
    ]
    kinds = [ctypes.c_int32 if dtype is None else ctypes.c_void_p for dtype in launch.program.parameters]
    arguments = (tuple(addresses), tuple(kinds))
    driver = _driver()
    _checked(driver.cuLaunchKernel(function, *launch.grid, THREADS, 1, 1, 0, stream, arguments, 0), launch.program.name)


@functools.cache
def _function(program: Program, target: str, device: int) -> Any:
    """Return a kernel that is loaded into the current context of a device."""
    code, _, name = cubin(program, target)
    with stage("compile"):
        driver = _driver()
        module = _checked(driver.cuModuleLoadData(code), f"load {program.name}")
        return _checked(driver.cuModuleGetFunction(module, name.encode()), f"find {name}")


def _enter(device: int) -> None:
    """Make the device's context, which PyTorch uses too, current in this thread if the thread has none.

    Autograd runs the backward in a thread of its own, where PyTorch makes it current only when it needs it itself.
    """
    driver = _driver()
    if int(_checked(driver.cuCtxGetCurrent(), "tell the current context")) == 0:
        _checked(driver.cuCtxSetCurrent(_context(device)), "make a context current")


@functools.cache
def _context(device: int) -> Any:
    """Return the primary context of a device. It is not given back: PyTorch keeps it until the process ends."""
    driver = _driver()
    handle = _checked(driver.cuDeviceGet(device), "find the device")
    return _checked(driver.cuDevicePrimaryCtxRetain(handle), "hold the context")


@functools.cache
def _driver() -> Any:
    from cuda.bindings import driver

    return driver


def _checked(result: tuple[Any, ...], action: str) -> Any:
    """Return the value of a call of the driver."""
    status, *values = result
    if int(status):
        raise LaunchError(f"cute: the driver cannot {action}: {status}")
    return values[0] if values else None
