"""``mhc_pre`` in TileLang: one kernel for CUDA and HIP, one for the CPU, on TileLang 0.1.8 and 0.1.15.

TileLang generates the source; nvcc, hipcc or the C++ compiler compile it.
"""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import torch

from mhc.backends import Artifact, stage
from mhc.backends.tilelang import cpu_kernel, gpu_kernel, toolchain
from mhc.backends.tilelang.compat import Lowered, load, lower
from mhc.ops.mhc_pre import MhcPreInputs, MhcPreOutputs, MhcPreSpec

# Below this many elements of x, one thread is done before a second one has started.
ELEMENTS_OF_THREAD = 1 << 16
# Bytes of the widest access of the GPU kernel, which faults on an address that is not a multiple of its size.
ALIGNMENT = 16


def run(inputs: MhcPreInputs, out: MhcPreOutputs, target: str | None = None) -> None:
    """Compile for ``target``, or for the device of the inputs, and run; ``out`` is overwritten."""
    target = target or _target_of(inputs.x.device)
    operands = _operands(inputs, out)
    if _kind(target) == "c":
        if inputs.x.device.type != "cpu":
            raise ValueError(f"mhc_pre: {target} is a CPU target, and x is on {inputs.x.device}")
        _run_cpu(inputs.spec, target, operands)
        return
    _run_gpu(inputs.spec, target, operands)


@cache
def compile(spec: MhcPreSpec, target: str) -> Artifact:
    """Compile for ``sm_90``, ``gfx942``, ``x86-64-v3`` or another of their kinds.

    An AMD target gives a code object where there is a hipcc, and source where there is none.
    """
    lowered = _lower(spec, target)
    with stage("compile"):
        if _kind(target) == "cuda":
            data, told = toolchain.cubin(lowered.source, target)
            # ptxas knows of static shared memory only; a launch adds what is dynamic.
            shared = told.get("shared_bytes", 0) + lowered.resources.get("shared_bytes", 0)
            return Artifact("cubin", target, data, {**lowered.resources, **told, "shared_bytes": shared})
        if _kind(target) == "hip":
            hipcc = shutil.which("hipcc")
            if hipcc:
                data, told = toolchain.hsaco(lowered.source, target, hipcc)
                return Artifact("hsaco", target, data, {**lowered.resources, **told})
            shared = toolchain.static_shared_bytes(lowered.source) + lowered.resources.get("shared_bytes", 0)
            return Artifact(
                "hip-source", target, lowered.source.encode(), {**lowered.resources, "shared_bytes": shared}
            )
        return Artifact("shared-object", target, toolchain.shared_object(lowered.source, target))


def _kind(target: str) -> str:
    """TileLang's name for the kind of ``target``."""
    return "cuda" if target.startswith("sm_") else "hip" if target.startswith("gfx") else "c"


def _target_of(device: torch.device) -> str:
    if device.type != "cuda":
        return "native"
    if torch.version.hip:
        return torch.cuda.get_device_properties(device).gcnArchName.split(":")[0]
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


def _tilelang_target(target: str) -> dict[str, str]:
    kind = _kind(target)
    names = {"cuda": {"arch": target}, "hip": {"mcpu": target}, "c": {}}
    return {"kind": kind, **names[kind]}


def _prim_func(spec: MhcPreSpec, target: str) -> Any:
    if _kind(target) != "c":
        return gpu_kernel.kernel(spec)
    # As many lanes as a vector of the target has, for the targets that are known to have 512 bits.
    return cpu_kernel.kernel(spec, lanes=16 if target in ("native", "x86-64-v4") else 8)


@cache
def _lower(spec: MhcPreSpec, target: str) -> Lowered:
    with stage("lower"):
        return lower(_prim_func(spec, target), _tilelang_target(target))


@cache
def _gpu_kernel(spec: MhcPreSpec, target: str) -> Callable[..., None]:
    _lower(spec, target)  # so that an error of this stage says so
    with stage("compile"):
        return load(_prim_func(spec, target), _tilelang_target(target))


def _operands(inputs: MhcPreInputs, out: MhcPreOutputs) -> dict[str, torch.Tensor]:
    """The tensors by the names, in the order and in the shapes of the kernels' parameters."""
    tokens, streams, hidden = inputs.x.shape
    # The kernels want a tensor; one that was compiled without gamma does not read it.
    gamma = inputs.alpha[:1] if inputs.gamma is None else inputs.gamma.view(-1)
    return {
        "x": inputs.x.view(tokens, streams * hidden),
        "phi": inputs.phi,
        "alpha": inputs.alpha,
        "bias": inputs.bias,
        "gamma": gamma,
        "h_in": out.h_in,
        "h_post": out.h_post,
        "h_res": out.h_res.view(tokens, streams * streams),
    }


def _run_gpu(spec: MhcPreSpec, target: str, operands: dict[str, torch.Tensor]) -> None:
    kernel = _gpu_kernel(spec, target)
    with stage("launch"), _device_of(operands["x"]):
        # A tensor that begins inside another one's storage can be anywhere: work on a copy of it then.
        aligned = [tensor if tensor.data_ptr() % ALIGNMENT == 0 else tensor.clone() for tensor in operands.values()]
        kernel(*aligned)
        for (name, tensor), copy in zip(operands.items(), aligned, strict=True):
            if copy is not tensor and name in MhcPreOutputs._fields:
                tensor.copy_(copy)


def _device_of(tensor: torch.Tensor) -> AbstractContextManager[Any]:
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()


@cache
def _cpu_function(spec: MhcPreSpec, target: str) -> Callable[..., int]:
    """The compiled function; ctypes releases the interpreter's lock while it runs."""
    artifact, lowered = compile(spec, target), _lower(spec, target)
    with stage("compile"), tempfile.TemporaryDirectory(prefix="mhc-") as folder:
        path = Path(folder) / "mhc_pre.so"
        path.write_bytes(artifact.data)
        function = getattr(ctypes.CDLL(str(path)), lowered.symbol)
    function.argtypes = [ctypes.c_int32 if name == "tokens" else ctypes.c_void_p for name in lowered.parameters]
    return function


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="mhc-tilelang")


def _run_cpu(spec: MhcPreSpec, target: str, operands: dict[str, torch.Tensor]) -> None:
    function, parameters = _cpu_function(spec, target), _lower(spec, target).parameters
    tokens = operands["x"].shape[0]
    per_token = ("x", "h_in", "h_post", "h_res")

    def call(first: int, last: int) -> None:
        arguments = {"tokens": last - first}
        for name, tensor in operands.items():
            offset = first * tensor.stride(0) * tensor.element_size() if name in per_token else 0
            arguments[name] = tensor.data_ptr() + offset
        function(*(arguments[name] for name in parameters))

    with stage("launch"):
        threads = min(torch.get_num_threads(), -(-tokens * spec.width // ELEMENTS_OF_THREAD))
        groups = -(-tokens // cpu_kernel.GROUP)
        share = -(-groups // threads) * cpu_kernel.GROUP
        slices = [(first, min(first + share, tokens)) for first in range(0, tokens, share)]
        others = [_pool(threads).submit(call, *bounds) for bounds in slices[1:]]
        call(*slices[0])
        for other in others:
            other.result()
