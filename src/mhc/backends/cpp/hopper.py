"""Tell NVIDIA's driver of kernels of sm_90: of clusters of blocks, dynamic shared memory, and tensor maps."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

STREAMS = 4  # of the variants for sm_90

_CLUSTER, _EARLY = 4, 6  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, _PROGRAMMATIC_STREAM_SERIALIZATION
# CU_FUNC_ATTRIBUTE_*: bytes of dynamic shared memory, the share of it that is preferred, clusters of more than 8
_SHARED_BYTES, _SHARED_PERCENT, _LARGE_CLUSTERS = 8, 9, 14
_BF16, _PROMOTION = 9, 2  # CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, CU_TENSOR_MAP_L2_PROMOTION_L2_128B
_NO_SWIZZLE, _SWIZZLES = 0, {64: 2, 128: 3}  # CU_TENSOR_MAP_SWIZZLE_NONE, and _64B and _128B for such rows
_ALIGNMENT = 64  # bytes of a tensor map

# A part of the GPU (a GPC) has up to this many multiprocessors, and a cluster is in one part.
_MULTIPROCESSORS_OF_A_PART = 18


class Shape(NamedTuple):
    """The threads of a block, its bytes of dynamic shared memory, and the blocks of a cluster.

    ``early`` is whether the launch may begin before the one before it has ended. Its kernel then waits by itself.
    ``shared_percent`` is how much of a multiprocessor's memory to have as shared memory; the rest is L1 cache. None
    leaves it to the driver. A multiprocessor changes this only when it is empty: a launch that begins early, while a
    kernel runs that divided the memory in another way, keeps that division unless it asks for its own. Then it waits.
    """

    threads: int
    shared_bytes: int
    cluster: int
    early: bool = False
    shared_percent: int | None = None


class TensorMap(ctypes.Structure):
    """Hold what the copy engine has to know of a tensor, as the driver encodes it.

    ``address`` is the tensor's address, and ``again`` returns the map of a tensor of the same kind at another one.
    """

    _fields_ = (("words", ctypes.c_uint64 * 16),)
    address: int
    again: Callable[[int], TensorMap]


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint32 * 16))


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


def refusal(spec: Any, target: str | None) -> str | None:
    """Return why no variant for sm_90 runs the specialisation on ``target``, or None; each has its own hidden sizes."""
    if target != "sm_90":
        return "it is for NVIDIA's sm_90"
    if spec.dtype != torch.bfloat16:
        return f"x is {str(spec.dtype).removeprefix('torch.')}, and this variant is for bf16"
    if spec.streams != STREAMS:
        return f"there are {spec.streams} streams, and this variant is for {STREAMS}"
    return None


def config_of(grid: tuple[int, int, int], shape: Shape, stream: int) -> ctypes.Structure:
    """Return the argument of ``cuLaunchKernelEx``."""
    attributes = _attributes(shape)
    return _Config(grid, (shape.threads, 1, 1), shape.shared_bytes, stream, attributes, len(attributes))


@functools.cache
def _attributes(shape: Shape) -> Any:
    values = {_CLUSTER: (shape.cluster, 1, 1)} | ({_EARLY: (1,)} if shape.early else {})
    return (_Attribute * len(values))(*((name, 0, value) for name, value in values.items()))


def allow(library: Any, function: ctypes.c_void_p, shape: Shape) -> int:
    """Let a kernel have its clusters and its shared memory, as much as it asks for; return the driver's status."""
    values = {_SHARED_BYTES: shape.shared_bytes, _LARGE_CLUSTERS: 1}
    if shape.shared_percent is not None:
        values[_SHARED_PERCENT] = shape.shared_percent
    statuses = (library.cuFuncSetAttribute(function, name, value) for name, value in values.items())
    return next(filter(None, statuses), 0)


@functools.cache
def launches_early(device: torch.device) -> bool:
    """Return whether a launch on the device may begin early: on NVIDIA's GPUs from sm_90 on."""
    return device.type == "cuda" and not torch.version.hip and torch.cuda.get_device_capability(device) >= (9, 0)


@functools.cache
def clusters_of(device: torch.device, blocks: int) -> int:
    """Return how many clusters of so many blocks a GPU runs at the same time, if each block needs a multiprocessor."""
    parts = torch.cuda.get_device_properties(device).multi_processor_count // _MULTIPROCESSORS_OF_A_PART
    return max(1, parts * (_MULTIPROCESSORS_OF_A_PART // blocks))


def streams_map(x: torch.Tensor, tokens: int, columns: int, *, swizzled: bool = False) -> TensorMap:
    """Return the map of ``x`` [tokens, n, hidden] in bf16, in boxes of so many tokens and columns of one stream.

    ``swizzled`` is for rows of 64 or 128 bytes, whose pieces of 16 bytes the copy engine then swaps.

    Raises:
        RuntimeError: the driver refuses it, as where ``x`` does not begin at a multiple of 16 bytes.
    """
    swizzle = _SWIZZLES[2 * columns] if swizzled else _NO_SWIZZLE
    return _map((x.shape[:-2].numel(), *x.shape[-2:], tokens, columns, swizzle), x.data_ptr())


@functools.lru_cache(maxsize=1024)  # encoding takes the host a few microseconds
def _map(kind: tuple[int, ...], address: int) -> TensorMap:
    tokens, streams, hidden, box_tokens, box_columns, swizzle = kind
    memory = ctypes.create_string_buffer(ctypes.sizeof(TensorMap) + _ALIGNMENT)
    place = ctypes.addressof(memory) + -ctypes.addressof(memory) % _ALIGNMENT
    sizes = (ctypes.c_uint64 * 3)(hidden, streams, tokens)
    strides = (ctypes.c_uint64 * 2)(2 * hidden, 2 * streams * hidden)
    box, every = (ctypes.c_uint32 * 3)(box_columns, 1, box_tokens), (ctypes.c_uint32 * 3)(1, 1, 1)
    where = ctypes.c_void_p(place), _BF16, 3, ctypes.c_void_p(address)
    how = (sizes, strides, box, every, 0, swizzle, _PROMOTION, 0)
    status = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(*where, *how)
    if status:
        raise RuntimeError(f"cpp: the driver cannot make a tensor map of x: {status}")
    made = TensorMap.from_buffer_copy(ctypes.string_at(place, ctypes.sizeof(TensorMap)))
    made.address, made.again = address, functools.partial(_map, kind)
    return made
