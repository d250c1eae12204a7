"""Differences between TileLang 0.1.8 and 0.1.15: one name for what has several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import tilelang
import tilelang.language as gpu_language
from tilelang import tvm

from mhc.backends.tilelang.simplify import simplified_once

VERSION = tuple(int(part) for part in tilelang.__version__.split(".")[:3])

if VERSION >= (0, 1, 13):
    # The CPU has a dialect of its own, whose launch needs no flag.
    import tilelang.cpu.language as cpu_language

    CPU_LAUNCH: dict[str, Any] = {}
else:
    cpu_language = gpu_language
    CPU_LAUNCH = {"is_cpu": True} if VERSION < (0, 1, 12) else {}


def reinterpret(value: Any, dtype: str) -> Any:
    """Return the bits of ``value`` as ``dtype``; the arguments changed places in 0.1.10."""
    return cpu_language.reinterpret(value, dtype) if VERSION >= (0, 1, 10) else cpu_language.reinterpret(dtype, value)


@dataclass(frozen=True)
class Lowered:
    """Source text of one kernel: its symbol, its parameters in order, threads of a block and dynamic shared memory.

    ``grid`` returns the blocks in x and y for the sizes that are free at compile time.
    """

    source: str
    symbol: str
    parameters: tuple[str, ...]
    resources: dict[str, int]
    grid: Callable[[Mapping[str, int]], tuple[int, int]]


# TileLang looks for the generator when all else is done. Some wheels have none for HIP: know it half a second earlier.
_GENERATORS = {"hip": "target.build.tilelang_hip_without_compile"}


def lower(prim_func: Callable[[], Any], target: dict[str, str]) -> Lowered:
    """Generate source for ``target``; nothing compiles it. ``prim_func`` is called if there is a generator for it.

    Raises:
        ValueError: there is none in this wheel.
    """
    if target["kind"] in _GENERATORS:
        tvm.ffi.get_global_func(_GENERATORS[target["kind"]])
    tvm_target = tvm.target.Target(target)
    with tvm.transform.PassContext(opt_level=3), tvm_target, simplified_once():
        artifact = tilelang.lower(prim_func(), target=tvm_target)
    (function,) = artifact.device_mod.functions.values()
    attributes = function.attrs or {}
    resources = {}
    if target["kind"] != "c" and "thread_extent" in attributes:
        threads = 1
        for axis, extent in attributes["thread_extent"].items():
            if str(axis).startswith("threadIdx"):
                threads *= int(extent)
        resources["threads"] = threads
    if "dyn_shared_memory_buf" in attributes:
        resources["shared_bytes"] = int(attributes["dyn_shared_memory_buf"])
    return Lowered(
        artifact.kernel_source,
        str(attributes["global_symbol"]),
        tuple(str(parameter.name) for parameter in function.params),
        resources,
        partial(_grid, function),
    )


def _grid(function: Any, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Return how many blocks a kernel has in x and y; the extents are expressions of the sizes."""
    extents = {str(axis): extent for axis, extent in function.attrs["thread_extent"].items()}
    values = {parameter: sizes[parameter.name] for parameter in function.params if parameter.name in sizes}
    across, down = (
        tvm.arith.Analyzer().simplify(tvm.tirx.stmt_functor.substitute(extents.get(axis, tvm.tirx.const(1)), values))
        for axis in ("blockIdx.x", "blockIdx.y")
    )
    return int(across), int(down)


def load(prim_func: Any, target: dict[str, str]) -> Any:
    """Build ``prim_func`` for a GPU that is here: a callable that takes torch tensors, on torch's current stream."""
    return tilelang.compile(prim_func, target=tvm.target.Target(target), execution_backend="tvm_ffi")


def cubin_of(kernel: Any) -> bytes | None:
    """Return the machine code of a kernel that :func:`load` returned; None where it is of another kind."""
    adapter = kernel.adapter
    built = getattr(adapter, "rt_mod", None) or adapter.executable  # the second if it came from TileLang's cache
    for module in built.imports:
        try:
            module.inspect_source("cubin")
        except UnicodeDecodeError as error:  # it takes the code for text, and nothing else hands the code over
            return bytes(error.object)
    return None
