"""WebGPU without a GPU: wgpu compiles WGSL and runs it on lavapipe, Mesa's Vulkan device on the CPU.

Every tensor is copied to a buffer of its own, with guards behind it that nobody may write. What a kernel reads beyond
the end of a tensor is NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from mhc.backends import NoDeviceError
from mhc.toolchain.wgsl import LAST_BLOCK, Shader, shader_of

# What Vulkan calls the device of each target.
TARGETS = {"lavapipe": "llvmpipe"}

# Bytes of memory that a block of threads shares: every adapter has half of it, lavapipe and most GPUs have this.
SHARED_BYTES = 32 * 1024

_MAX_BLOCKS = 65535  # along one axis of a grid, on every adapter
_GUARD = b"\xff" * 256  # NaN in every dtype
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
        import wgpu
        from wgpu.backends.wgpu_native.extras import set_instance_extras
    except (ImportError, OSError) as error:
        raise NoDeviceError(f"wgpu does not import: {error}") from error
    set_instance_extras(backends=["Vulkan"])  # OpenGL would be asked too, and complains where there is no screen
    adapters = {adapter.info["device"]: adapter for adapter in wgpu.gpu.enumerate_adapters_sync()}
    adapter = next((adapter for name, adapter in adapters.items() if name.startswith(TARGETS[target])), None)
    if adapter is None:
        devices = ", ".join(adapters) or "no device"
        raise NoDeviceError(f"Vulkan finds {devices}, and not {target}; sudo apt-get install mesa-vulkan-drivers")
    limits = {name: adapter.limits[name] for name in _LIMITS}
    features = [name for name in ("shader-f16",) if name in adapter.features]
    return adapter.request_device_sync(required_features=features, required_limits=limits)


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
        return shader, device(target).create_compute_pipeline(
            layout="auto", compute={"module": module, "entry_point": shader.entry}
        )
    except wgpu.GPUError as error:
        raise RuntimeError(f"wgpu: {' '.join(str(error).split())}") from error


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
    buffers = {name: _buffer(target, _bytes(tensor)) for name, tensor in operands.items()}
    for name, shape in scratch.items():
        buffers[name] = _buffer(target, b"\xff" * (4 * functools.reduce(int.__mul__, map(int, shape), 1)))
    encoder = device(target).create_command_encoder()
    for one, (shader, pipeline) in zip(launches, kernels, strict=True):
        _encode(target, encoder, shader, pipeline, one.grid, buffers, numbers)
    device(target).queue.submit([encoder.finish()])
    written = {binding.name for shader, _ in kernels for binding in shader.bindings if binding.written}
    for name in sorted(written):
        data = bytes(device(target).queue.read_buffer(buffers[name]))
        if not data.endswith(_GUARD):
            raise RuntimeError(f"webgpu: a kernel wrote behind the end of {name}")
        if name in operands:
            _bytes(operands[name])[:] = torch.frombuffer(bytearray(data), dtype=torch.uint8)[
                : _bytes(operands[name]).numel()
            ]


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
    fields = torch.tensor([values[name] for name in shader.fields], dtype=torch.int32)
    uniform = device(target).create_buffer_with_data(data=fields.numpy(), usage=wgpu.BufferUsage.UNIFORM)
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


def _buffer(target: str, data: Any) -> Any:
    """Return a buffer with these bytes, and the guard behind them."""
    import wgpu

    content = bytes(data.numpy() if isinstance(data, torch.Tensor) else data)
    content += b"\xff" * (-len(content) % 4) + _GUARD
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
    return device(target).create_buffer_with_data(data=content, usage=usage)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor's own memory as bytes: NumPy has no bf16."""
    return tensor.view(-1).view(torch.uint8)
