"""OpenCL runtimes that come as wheels: they run code for blocks of threads, with shared memory, without a GPU.

PoCL compiles for the CPU and runs the threads of a block one after the other from barrier to barrier. Oclgrind
interprets, and reports races, barriers that not all threads reach, and memory that is not the kernel's.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mhc.backends import NoDeviceError
from mhc.backends.tvm.runtimes import platform_of

# Stands before TVM's source: conversions that every OpenCL device has, also one without half-precision arithmetic. They
# go through a union, because compilers assume that two types do not share memory.
PRELUDE = """
typedef union { ushort bits; uchar bytes[2]; } mhc_half;
float mhc_float_of(ushort bits) { mhc_half h; h.bits = bits; return vload_half(0, (const __private half *)&h); }
ushort mhc_half_of(float value) { mhc_half h; vstore_half_rte(value, 0, (__private half *)&h); return h.bits; }
"""


@dataclass(frozen=True)
class Device:
    """A device with its context and a queue. A queue does not keep its context alive in Intel's runtime."""

    context: Any
    queue: Any


@functools.cache
def device(runtime: str) -> Device:
    """Return the runtime's device.

    Raises:
        NoDeviceError: the runtime is not installed, or its compiler does not work on this machine. The text says which.
    """
    platform = platform_of(runtime)
    import pyopencl as cl

    if runtime == "oclgrind":
        os.environ["OCLGRIND_LOG"] = str(_log())  # read when a context is made
        # After so many faults Oclgrind reports no more of this process, and a later case with a race would pass.
        os.environ.setdefault("OCLGRIND_MAX_ERRORS", "100000000")
    context = cl.Context(platform.get_devices()[:1])
    try:
        cl.Program(context, "__kernel void nothing(__global int *a) { a[0] = 0; }").build()
    except cl.Error as error:
        raise NoDeviceError(f"{runtime} cannot compile an empty kernel for this CPU: {_words(error)}") from error
    return Device(context, cl.CommandQueue(context))


@functools.cache
def build(runtime: str, source: str) -> Any:
    """Build OpenCL C with the runtime's compiler, and return the kernels by name, each with its parameters in order.

    Raises:
        RuntimeError: the source does not compile; the text is the compiler's.
        NoDeviceError: the runtime does not work here.
    """
    import pyopencl as cl

    try:
        program = cl.Program(device(runtime).context, PRELUDE + source).build()
    except cl.Error as error:
        raise RuntimeError(f"{runtime}: {_words(error)}") from error
    kernels = {}
    for name, parameters in re.findall(r"__kernel void (?:__attribute__\(\(.*?\)\) )?(\w+)\(([^)]*)\) *\{", source):
        # TVM may change the order of the parameters, and names each after its tensor.
        names = tuple(re.sub(r"_ptr$", "", part.split()[-1].strip("*")) for part in parameters.split(","))
        kernels[name] = (cl.Kernel(program, name), names)
    return kernels


def launch(
    runtime: str,
    kernels: Mapping[str, Any],
    grids: Mapping[str, tuple[int, int]],
    threads: int,
    operands: Mapping[str, torch.Tensor],
    scratch: Mapping[str, tuple[int, ...]],
    numbers: Mapping[str, int],
) -> None:
    """Copy the tensors to the device, launch the kernels in the order of ``grids``, and copy what they wrote back.

    Raises:
        RuntimeError: Oclgrind reported a fault. The text is its own; the numbers may still be right.
    """
    import numpy as np
    import pyopencl as cl

    context, line = device(runtime).context, device(runtime).queue
    reported = _log().stat().st_size
    copies = {
        name: cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=_bytes(tensor))
        for name, tensor in operands.items()
    }
    for name, shape in scratch.items():
        copies[name] = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * int(np.prod(shape)))
    for name, (across, down) in grids.items():
        kernel, parameters = kernels[name]
        given = [np.int64(numbers[each]) if each in numbers else copies[each] for each in parameters]
        kernel(line, (across * threads, down), (threads, 1), *given)
    for name, tensor in operands.items():
        cl.enqueue_copy(line, _bytes(tensor), copies[name])
    line.finish()
    if _log().stat().st_size > reported:
        with _log().open("rb") as log:
            log.seek(reported)
            report = log.read().decode(errors="replace")
        raise RuntimeError(f"oclgrind: {' '.join(report.split())[:400]}")


@functools.cache
def _log() -> Path:
    """Return the file that Oclgrind writes faults to; it exists until this process ends."""
    file = tempfile.NamedTemporaryFile(prefix="oclgrind-", suffix=".log")  # noqa: SIM115
    atexit.register(file.close)
    return Path(file.name)


def _words(error: Exception) -> str:
    """Return the compiler's error lines out of PyOpenCL's long message."""
    return "; ".join(line for line in str(error).splitlines() if "error:" in line) or str(error)


def _bytes(tensor: torch.Tensor) -> Any:
    """Return the tensor's own memory as bytes: NumPy has no bf16."""
    return tensor.view(-1).view(torch.uint8).numpy()
