"""WebGPU without a GPU: wgpu compiles WGSL and runs it on lavapipe, Mesa's Vulkan device on the CPU.

Every tensor is copied to a buffer of its own, with guards behind it that nobody may write. What a kernel reads beyond
the end of a tensor is NaN.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mhc.backends import NoDeviceError
from mhc.toolchain.wgsl import LAST_BLOCK, Shader, shader_of

# What Vulkan calls the device of each target.
TARGETS = {"lavapipe": "llvmpipe"}

# Bytes of memory that a block of threads shares: every adapter has half of it, lavapipe and most GPUs have this.
SHARED_BYTES = 32 * 1024

_MAX_BLOCKS = 65535  # along one axis of a grid, on every adapter
_GUARD = 256  # bytes of ones behind a tensor, which are NaN in every dtype
_LIMITS = ("max-storage-buffers-per-shader-stage", "max-compute-workgroup-storage-size")


@dataclass(frozen=True)
class Launch:
    """A kernel in WGSL, as its generator wrote it, and its grid in x and y."""

    source: str
    grid: tuple[int, int]


def in_words(spec: Any) -> Any:
    """Return the specialisation of the kernel that serves ``spec``: of bf16, the one of fp32 (:mod:`.wgsl`)."""
    return replace(spec, dtype=torch.float32) if getattr(spec, "dtype", None) == torch.bfloat16 else spec


@functools.cache
def device(target: str) -> Any:
    """Return the device of a target, with half precision and as many buffers for a kernel as it has.

    Raises:
        NoDeviceError: wgpu or the Vulkan driver is not installed. The text says which, and what installs it.
    """
    try:
        adapters = _adapters()
    except (ImportError, OSError) as error:
        raise NoDeviceError(f"wgpu does not import: {error}; pip install wgpu") from error
    adapter = next((adapter for name, adapter in adapters.items() if name.startswith(TARGETS[target])), None)
    if adapter is None:
        devices = ", ".join(adapters) or "no device"
        raise NoDeviceError(f"Vulkan finds {devices}, and not {target}; sudo apt-get install mesa-vulkan-drivers")
    limits = {name: adapter.limits[name] for name in _LIMITS}
    features = [name for name in ("shader-f16",) if name in adapter.features]
    return adapter.request_device_sync(required_features=features, required_limits=limits)


@functools.cache
def _adapters() -> Mapping[str, Any]:
    """Return Vulkan's devices by their names."""
    import wgpu
    from wgpu.backends.wgpu_native.extras import set_instance_extras

    with contextlib.suppress(RuntimeError):  # this process has asked for devices of all kinds before
        set_instance_extras(backends=["Vulkan"])
    return {adapter.info["device"]: adapter for adapter in wgpu.gpu.enumerate_adapters_sync()}


@functools.cache
def build(target: str, source: str, halves: frozenset[str]) -> tuple[Shader, Any]:
    """Compile a kernel, whose tensors ``halves`` are stored in bf16; return it with its pipeline.

    Raises:
        RuntimeError: the source does not compile; the text is wgpu's.
        NoDeviceError: the device is not here.
    """
    import wgpu

    shader = shader_of(source, halves)
    try:
        module = device(target).create_shader_module(code=shader.source)
        pipeline = device(target).create_compute_pipeline(
            layout=device(target).create_pipeline_layout(bind_group_layouts=[_layout(target, shader)]),
            compute={"module": module, "entry_point": shader.entry},
        )
    except wgpu.GPUError as error:
        raise RuntimeError(f"wgpu: {' '.join(str(error).split())}") from error
    return shader, pipeline


def _layout(target: str, shader: Shader) -> Any:
    """Return the layout of all buffers that the text declares: an automatic one leaves out those that are not used."""
    import wgpu

    kinds = {binding.index: "storage" if binding.written else "read-only-storage" for binding in shader.bindings}
    kinds[shader.uniform] = "uniform"
    stage = wgpu.ShaderStage.COMPUTE
    entries = [{"binding": index, "visibility": stage, "buffer": {"type": kind}} for index, kind in kinds.items()]
    return device(target).create_bind_group_layout(entries=entries)


def build_all(
    target: str, launches: Sequence[Launch], operands: Mapping[str, torch.Tensor]
) -> list[tuple[Shader, Any]]:
    """Compile the kernels of launches for the dtypes of their operands.

    Raises:
        RuntimeError: one does not compile.
        NoDeviceError: the device is not here.
    """
    halves = frozenset(name for name, tensor in operands.items() if tensor.dtype == torch.bfloat16)
    return [build(target, launch.source, halves) for launch in launches]


def launch(
    target: str,
    launches: Sequence[Launch],
    operands: Mapping[str, torch.Tensor],
    scratch: Mapping[str, tuple[int, ...]],
    numbers: Mapping[str, int],
) -> None:
    """Copy the tensors to the device, launch the kernels one after the other, and copy what they wrote back.

    Raises:
        RuntimeError: a kernel does not compile, or wrote behind the end of a tensor.
        ValueError: a grid is larger than WebGPU allows.
    """
    kernels = build_all(target, launches, operands)
    contents = {name: _bytes(tensor) for name, tensor in operands.items()}
    for name, shape in scratch.items():
        contents[name] = np.full(4 * math.prod(shape), 0xFF, np.uint8)
    buffers = {name: _buffer(target, content) for name, content in contents.items()}
    encoder = device(target).create_command_encoder()
    for one, (shader, pipeline) in zip(launches, kernels, strict=True):
        _encode(target, encoder, shader, pipeline, one.grid, buffers, numbers)
    device(target).queue.submit([encoder.finish()])
    for name in sorted({binding.name for shader, _ in kernels for binding in shader.bindings if binding.written}):
        data = np.frombuffer(device(target).queue.read_buffer(buffers[name]), np.uint8)
        size = contents[name].size
        if (data[size:] != 0xFF).any():
            raise RuntimeError(f"webgpu: a kernel wrote behind the end of {name}")
        contents[name][:] = data[:size]


def _encode(
    target: str,
    encoder: Any,
    shader: Shader,
    pipeline: Any,
    grid: tuple[int, int],
    buffers: Mapping[str, Any],
    numbers: Mapping[str, int],
) -> None:
    """Add a launch to the commands. A launch without blocks is none."""
    import wgpu

    if max(grid) > _MAX_BLOCKS:
        raise ValueError(
            f"{shader.entry} needs a grid of {grid}; WebGPU has at most {_MAX_BLOCKS} blocks along an axis"
        )
    values = {**numbers, LAST_BLOCK: grid[0] - 1}
    fields = np.array([values[name] for name in shader.fields], np.int32)
    uniform = device(target).create_buffer_with_data(data=fields, usage=wgpu.BufferUsage.UNIFORM)
    bound = {binding.index: buffers[binding.name] for binding in shader.bindings} | {shader.uniform: uniform}
    entries = [
        {"binding": index, "resource": {"buffer": buffer, "offset": 0, "size": buffer.size}}
        for index, buffer in bound.items()
    ]
    group = device(target).create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
    commands = encoder.begin_compute_pass()
    commands.set_pipeline(pipeline)
    commands.set_bind_group(0, group)
    commands.dispatch_workgroups(*grid)
    commands.end()


def _buffer(target: str, content: NDArray[np.uint8]) -> Any:
    """Return a buffer with these bytes, and guards up to the end of a word and behind it."""
    import wgpu

    data = content.tobytes()
    data += b"\xff" * (-len(data) % 4 + _GUARD)
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
    return device(target).create_buffer_with_data(data=data, usage=usage)


def _bytes(tensor: torch.Tensor) -> NDArray[np.uint8]:
    """Return the tensor's own memory as bytes: NumPy has no bf16."""
    content: NDArray[np.uint8] = tensor.view(-1).view(torch.uint8).numpy()
    return content
