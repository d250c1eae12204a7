"""Pallas' kernels for NVIDIA: lowered to Triton's IR anywhere, and run where JAX has its CUDA plugin.

Tensors are handed over in the GPU's memory, without a copy; results are copied to the outputs. JAX and PyTorch have
streams of their own, and each waits for the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import torch

from mhc.backends import NoDeviceError, stage
from mhc.backends.pallas.devices import has_gpu

ANY_GPU = "sm_90"  # for what is the same on all of NVIDIA's GPUs

# The GPU that code is lowered for where there is none; JAX asks it for no more than this.
_KIND, _CORES = "NVIDIA H200", 132


def is_gpu(target: str | None) -> bool:
    """Return whether a target is a GPU of NVIDIA's."""
    return target is not None and re.fullmatch(r"sm_\d+", target) is not None


def checked_target(target: str | None, device: torch.device) -> str:
    """Return the target that a GPU of PyTorch's is; ``target`` is what was asked for, None for any.

    Raises:
        ValueError: it is no GPU of NVIDIA's, or another one than ``target``.
    """
    if torch.version.hip:
        raise ValueError("pallas: the inputs are on an AMD GPU, and it takes inputs on NVIDIA's")
    present = "sm_{}{}".format(*torch.cuda.get_device_capability(device))
    if target not in (None, present):
        raise ValueError(f"pallas: target is {target}, and the inputs are on {present}; for others there is compile()")
    return present


def run(function: Callable[..., Any], tensors: Sequence[torch.Tensor | None], outputs: Sequence[Any]) -> None:
    """Call a function of JAX on tensors of a GPU, and copy its results to the outputs that are asked for.

    Raises:
        NoDeviceError: JAX has no GPU.
    """
    device = _device()
    torch.cuda.current_stream().synchronize()
    with stage("launch"), jax.default_device(device):
        given = [None if tensor is None else jax.dlpack.from_dlpack(tensor.detach()) for tensor in tensors]
        results = jax.block_until_ready(function(*given))
    for result, tensor in zip(results if isinstance(results, tuple) else (results,), outputs, strict=True):
        if tensor is not None:
            tensor.copy_(torch.from_dlpack(result))


def lower(function: Callable[..., Any], described: Sequence[jax.ShapeDtypeStruct | None]) -> bytes:
    """Return the program of XLA with the kernels as Triton's IR; no GPU is needed."""
    with stage("lower"), _described_gpu():
        return jax.jit(function).trace(*described).lower(lowering_platforms=("cuda",)).as_text().encode()


def _device() -> jax.Device:
    try:
        return jax.devices("gpu")[0]
    except RuntimeError as error:
        raise NoDeviceError(f"JAX finds no GPU: {error}") from error


def _described_gpu() -> AbstractContextManager[Any]:
    """Describe a GPU to JAX, which has asked for one since 0.11 where it lowers for one."""
    if has_gpu() or not hasattr(jax.sharding, "use_abstract_mesh"):
        return nullcontext()
    try:
        device = jax.sharding.AbstractDevice(device_kind=_KIND, num_cores=_CORES, platform="gpu")
    except (AttributeError, TypeError):  # an older JAX, which does not ask
        return nullcontext()
    mesh = jax.sharding.AbstractMesh((), (), abstract_device=device)
    return jax.sharding.use_abstract_mesh(mesh)
