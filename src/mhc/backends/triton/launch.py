"""The host side that all operators share: from device functions and their tiles to launches, or to one artifact."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from mhc.backends import Artifact, combined
from mhc.backends.triton.ahead import compile_ahead, gpu_target, target_name
from mhc.toolchain import gfx

POINTERS = {
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.float32: "*fp32",
    torch.float8_e4m3fn: "*fp8e4nv",
}


class Config(NamedTuple):
    """The constants of a device function and the options of the compiler, for a spec on a target."""

    constants: dict[str, Any]
    options: dict[str, Any]


class Launch(NamedTuple):
    """One device function over a grid; ``arguments`` are those that are no constants, in their order."""

    kernel: Any
    config: Config
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]


class Source(NamedTuple):
    """One device function to compile; ``types`` has a type for each argument that is no constant, or None."""

    kernel: JITFunction
    config: Config
    types: tuple[str | None, ...]


def cdiv(a: int, b: int) -> int:
    """Return the quotient rounded up; ``triton.cdiv`` takes some microseconds, as it also takes Triton's constants."""
    return -(-a // b)


def options(warps: int) -> dict[str, Any]:
    """Return the compiler's options for ``warps`` warps."""
    # enable_fp_fusion only contracts a·b + c; named, because its default is not the same in every version.
    return {"num_warps": warps, "enable_fp_fusion": True}


def elementwise(streams: int, hidden: int, target: GPUTarget | None) -> dict[str, int]:
    """Return a tile of tokens by hidden whose elements do not depend on each other; a few are held for every stream."""
    if target is None:
        # Each operation of the interpreter costs the same for a tile of any size: few large ones.
        return {"BLOCK_TOKENS": 128, "BLOCK_HIDDEN": min(1024, triton.next_power_of_2(hidden))}
    elements = 4 * target.warp_size * (8 if streams <= 4 else 4)
    block = min(elements, triton.next_power_of_2(hidden))
    return {"BLOCK_TOKENS": elements // block, "BLOCK_HIDDEN": block}


def elementwise_grid(tokens: int, hidden: int, tiles: Config) -> tuple[int, ...]:
    """Return the grid over the tiles that :func:`elementwise` decides, for :func:`mhc.backends.triton.vectors.tile`."""
    return (token_grid(tokens, tiles)[0] * cdiv(hidden, tiles.constants["BLOCK_HIDDEN"]),)


def token_grid(tokens: int, tiles: Config) -> tuple[int, ...]:
    """Return the grid over blocks of tokens."""
    return (cdiv(tokens, tiles.constants["BLOCK_TOKENS"]),)


def scratch(like: torch.Tensor, *sizes: int) -> tuple[torch.Tensor, ...]:
    """Return fp32 tensors of so many elements on the device of ``like``, uninitialised and cut from one allocation."""
    aligned = [size + -size % 4 for size in sizes]
    return torch.empty(sum(aligned), dtype=torch.float32, device=like.device).split_with_sizes(aligned)


@contextmanager
def current(device: torch.device) -> Iterator[None]:
    """Make ``device`` the current one, if it is a GPU and is not."""
    if device.type != "cuda" or torch.cuda.current_device() == device.index:
        yield
    else:
        with torch.cuda.device(device):
            yield


def active_target(kernel: Any, device: torch.device, target: str | None) -> GPUTarget | None:
    """Return the target that ``device``, the current one, is; None is Triton's interpreter, which has no architecture.

    Triton compiles for the device it launches on, so ``target`` may only name that one.

    Raises:
        RuntimeError: the inputs are on a CPU and the interpreter is off.
        ValueError: ``target`` is another architecture than the inputs' device.
    """
    interpreted = not isinstance(kernel, JITFunction)
    if device.type == "cpu" and not interpreted and not gfx.emulates(target):
        raise RuntimeError(
            "Triton has no CPU device; TRITON_INTERPRET=1, set before triton is imported, emulates one (exact in fp32 "
            "only: its cast to bf16 truncates)"
        )
    active = None if interpreted else triton.runtime.driver.active.get_current_target()
    if target is not None and (active is None or target != target_name(active)):
        name = "the interpreter" if active is None else target_name(active)
        raise ValueError(f"triton: target is {target}, and the inputs are on {name}; for others there is compile()")
    return active


def compile_sources(target: str, *sources: Source) -> Artifact:
    """Compile device functions for ``target``, in the order of their launches, into one artifact.

    Raises:
        ValueError: a kernel needs more shared memory than the target has.
    """
    gpu = gpu_target(target)
    return combined([compile_ahead(kernel, types, *config, target, gpu) for kernel, config, types in sources])
