"""``mhc_pre`` for GPUs: blocks of threads, shared memory, a tree of sums; CUDA, ROCm and OpenCL.

One compilation serves every number of tokens. A block of threads has a few tokens; its threads share out the columns of
the flattened streams, hold their sums in registers and add them up in shared memory, halving their number each time.
"""

from __future__ import annotations

import functools
from typing import Any

import tvm
from tvm.script import tirx as T

from mhc.backends import Artifact, stage
from mhc.backends.tvm import devices
from mhc.backends.tvm.vectors import name_of, narrow, wide
from mhc.ops.mhc_pre import MhcPreInputs, MhcPreOutputs, MhcPreSpec

# A power of two: the tree halves it down to one.
_THREADS = 128

# What any of these GPUs has for a block without being asked for more.
_SHARED_BYTES = 48 * 1024

# Sums that a thread holds: registers, of which no GPU here has more than 255 for a thread, must be left for the rest.
_SUMS = 112


def takes(target: str) -> bool:
    """Whether this form is the one for the target."""
    return target.startswith(("sm_", "gfx")) or target == "opencl"


def run(inputs: MhcPreInputs, out: MhcPreOutputs) -> None:
    """Run on an OpenCL CPU device, on copies of the tensors."""
    spec = inputs.spec
    tokens = inputs.x.shape[0]
    tensors = {**inputs._asdict(), **out._asdict()}
    blocks = -(-tokens // _height(spec))
    with stage("compile"):
        kernel = devices.opencl_kernel(_source(spec, "opencl"), "mhc_pre_kernel")
    with stage("launch"):
        devices.opencl_launch(kernel, tensors, {"tokens": tokens}, out, blocks, _THREADS)


@functools.cache
def compile(spec: MhcPreSpec, target: str) -> Artifact:
    """A cubin through nvcc for ``sm_90``, source for ``opencl``.

    For ``gfx942`` it is a code object where LLVM's linker is, and else the object that one would link.
    """
    if target == "opencl":
        return Artifact("opencl-source", target, _source(spec, target).encode())
    if target.startswith("sm_"):
        source = _source(spec, target)
        with stage("compile"):
            data, resources = devices.cubin(source, target)
        return Artifact("cubin", target, data, {**resources, "threads": _THREADS})
    with stage("lower"):
        module = _checked(spec, devices.target_of(target))
    with stage("compile"):
        unlinked, resources = devices.amdgpu_object(module, target)
        linked = devices.code_object(unlinked)
    kind, data = ("elf", unlinked) if linked is None else ("hsaco", linked)
    return Artifact(kind, target, data, {**resources, "threads": _THREADS})


@functools.cache
def _source(spec: MhcPreSpec, target: str) -> str:
    with stage("lower"):
        return devices.source(_checked(spec, devices.target_of(target)), target)


def _checked(spec: MhcPreSpec, target: tvm.target.Target) -> tvm.IRModule:
    """The script, unless it wants more of a block than a GPU has: TVM itself would compile it all the same."""
    shared = 4 * ((spec.mixes + 1) * _THREADS + _height(spec) * (spec.mixes + 1 + spec.streams))
    if shared > _SHARED_BYTES:
        raise ValueError(f"mhc_pre: {spec.streams} streams need {shared} bytes of shared memory, above {_SHARED_BYTES}")
    return tvm.IRModule({"mhc_pre": _script(spec, target.kind.name)})


def _height(spec: MhcPreSpec) -> int:
    """Tokens of a block: each row of phi is read once for all of them."""
    return max(1, min(4, _SUMS // (spec.mixes + 1)))


def _script(spec: MhcPreSpec, kind: str) -> tvm.tirx.PrimFunc:
    f32, dtype, size = "float32", name_of(spec.dtype), spec.dtype.itemsize
    n, hidden, width, mixes = spec.streams, spec.hidden, spec.width, spec.mixes
    height = _height(spec)

    def sigmoid(value: Any) -> Any:
        """With LLVM's own exponential on AMD: TVM would call one from a library of ROCm."""
        if kind == "rocm":
            power = T.call_llvm_pure_intrin(f32, "llvm.exp", T.float32(0) - value)
        else:
            power = T.exp(T.float32(0) - value)
        return T.float32(1) / (T.float32(1) + power)

    def rsqrt(value: Any) -> Any:
        if kind == "rocm":
            return T.float32(1) / T.call_llvm_pure_intrin(f32, "llvm.sqrt", value)
        return T.rsqrt(value)

    @T.prim_func
    def mhc_pre(
        x_: T.handle,
        phi_: T.handle,
        alpha_: T.handle,
        bias_: T.handle,
        gamma_: T.handle,
        h_in_: T.handle,
        h_post_: T.handle,
        h_res_: T.handle,
    ):
        T.func_attr({"global_symbol": "mhc_pre", "tirx.noalias": True})
        tokens = T.int64()
        x = T.match_buffer(x_, (tokens, width), dtype, align=size)
        phi = T.match_buffer(phi_, (mixes, width), f32, align=4)
        alpha = T.match_buffer(alpha_, (3,), f32, align=4)
        bias = T.match_buffer(bias_, (mixes,), f32, align=4)
        if spec.gamma:
            gamma = T.match_buffer(gamma_, (width,), f32, align=4)
        h_in = T.match_buffer(h_in_, (tokens, hidden), dtype, align=size)
        h_post = T.match_buffer(h_post_, (tokens, n), f32, align=4)
        h_res = T.match_buffer(h_res_, (tokens, n * n), f32, align=4)

        block = T.launch_thread("blockIdx.x", T.truncdiv(tokens + (height - 1), T.int64(height)))
        thread = T.launch_thread("threadIdx.x", _THREADS)
        acc = T.alloc_buffer((height, mixes + 1), f32, scope="local")
        v = T.alloc_buffer((height,), f32, scope="local")
        r = T.alloc_buffer((1,), f32, scope="local")
        tree = T.alloc_buffer((mixes + 1, _THREADS), f32, scope="shared")
        mix = T.alloc_buffer((height, mixes + 1), f32, scope="shared")
        pre = T.alloc_buffer((height, n), f32, scope="shared")

        for t in T.unroll(height):
            for o in T.unroll(mixes + 1):
                acc[t, o] = T.float32(0)
        for k in range(-(-width // _THREADS)):
            if k * _THREADS + thread < width:
                for t in T.unroll(height):
                    # A last block that is not full repeats the last token, and does not store it again.
                    v[t] = wide(x[T.min(block * height + t, tokens - 1), k * _THREADS + thread])
                    acc[t, mixes] = acc[t, mixes] + v[t] * v[t]
                    if spec.gamma:
                        v[t] = v[t] * gamma[k * _THREADS + thread]
                for o in T.unroll(mixes):
                    r[0] = phi[o, k * _THREADS + thread]
                    for t in T.unroll(height):
                        acc[t, o] = acc[t, o] + v[t] * r[0]

        for t in T.unroll(height):
            for o in T.unroll(mixes + 1):
                tree[o, thread] = acc[t, o]
            T.tvm_storage_sync("shared")
            # TVM sees a conflict where threads read and write one array at different places: hence two phases.
            for s in T.unroll(_THREADS.bit_length() - 1):
                if thread < T.shift_right(_THREADS // 2, s):
                    for o in T.unroll(mixes + 1):
                        acc[t, o] = acc[t, o] + tree[o, thread + T.shift_right(_THREADS // 2, s)]
                T.tvm_storage_sync("shared")
                if thread < T.shift_right(_THREADS // 2, s):
                    for o in T.unroll(mixes + 1):
                        tree[o, thread] = acc[t, o]
                T.tvm_storage_sync("shared")
            if thread < mixes + 1:
                mix[t, thread] = tree[thread, 0]
            T.tvm_storage_sync("shared")

        for t in T.unroll(height):
            r[0] = rsqrt(mix[t, mixes] / T.float32(width) + T.float32(spec.norm_eps))
            if thread < n:
                pre[t, thread] = sigmoid(alpha[0] * (mix[t, thread] * r[0]) + bias[thread]) + T.float32(spec.pre_eps)
            if block * height + t < tokens:
                if thread < n:
                    h_post[block * height + t, thread] = T.float32(2) * sigmoid(
                        alpha[1] * (mix[t, n + thread] * r[0]) + bias[n + thread]
                    )
                if thread < n * n:
                    h_res[block * height + t, thread] = (
                        alpha[2] * (mix[t, 2 * n + thread] * r[0]) + bias[2 * n + thread]
                    )
        T.tvm_storage_sync("shared")
        for t in T.unroll(height):
            if block * height + t < tokens:
                for d in range(-(-hidden // _THREADS)):
                    if d * _THREADS + thread < hidden:
                        r[0] = T.float32(0)
                        for i in T.unroll(n):
                            r[0] = r[0] + pre[t, i] * wide(x[block * height + t, i * hidden + d * _THREADS + thread])
                        h_in[block * height + t, d * _THREADS + thread] = narrow(dtype, r[0])

    return mhc_pre
