"""Small programs that show what TVM 0.27 and the OpenCL runtimes do: ``python tvm_gpu.py [NAME ...]``.

Each writes its result to standard error. ``test_tvm_gpu.py`` compares the results with what the backend relies on.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from unittest import mock

import numpy as np
import torch
import tvm
from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends import NoDeviceError, NotSupportedError, load
from mhc.backends.tvm import devices, gpu, limits, opencl
from mhc.backends.tvm.mhc_pre import backward_gpu
from mhc.backends.tvm.runtimes import RUNTIMES, platform_of
from mhc.ops import mhc_pre as op

CUDA = {"kind": "cuda", "arch": "sm_90"}


def kernel(threads: int, floats: int) -> tvm.tirx.PrimFunc:
    """Return a script with so many threads in a block, and so many floats of shared memory."""

    @T.prim_func
    def nothing(a_: T.handle):
        T.func_attr({"global_symbol": "nothing", "tirx.noalias": True})
        tokens = T.int64()
        a = T.match_buffer(a_, (tokens,), "float32")
        block = T.launch_thread("blockIdx.x", tokens)
        thread = T.launch_thread("threadIdx.x", threads)
        s = T.alloc_buffer((floats,), "float32", scope="shared")
        s[thread] = a[block]
        a[block] = s[thread]

    return nothing


@T.prim_func
def unbound(a_: T.handle):
    T.func_attr({"global_symbol": "unbound", "tirx.noalias": True})
    tokens = T.int64()
    a = T.match_buffer(a_, (tokens,), "float32")
    for i in range(tokens):
        a[i] = T.float32(0)


@T.prim_func
def unequal(a_: T.handle):
    T.func_attr({"global_symbol": "unequal", "tirx.noalias": True})
    a = T.match_buffer(a_, (64,), "float32")
    with T.launch_thread("threadIdx.x", 64) as i:
        a[i] = T.float32(0)
    with T.launch_thread("threadIdx.x", 4) as j:
        a[j] = T.float32(0)


@T.prim_func
def half(a_: T.handle):
    T.func_attr({"global_symbol": "half", "tirx.noalias": True})
    a = T.match_buffer(a_, (128,), "float16")
    thread = T.launch_thread("threadIdx.x", 128)
    a[thread] = T.Cast("float16", T.Cast("float32", a[thread]) + T.float32(1))


def module(script: tvm.tirx.PrimFunc) -> tvm.IRModule:
    return tvm.IRModule({"nothing": script})


def compiles(script: tvm.tirx.PrimFunc) -> str:
    """Return what TVM says of the script for CUDA, and then what the backend's check says."""
    try:
        tvm.compile(module(script), target=Target(CUDA, host={"kind": "llvm"}))
        verdict = "TVM compiles it"
    except Exception as error:
        verdict = f"TVM refuses it: {error}"
    try:
        limits.check(script, "cuda")
    except ValueError as error:
        return f"{verdict}; check: {error}"
    return f"{verdict}; check: nothing"


def rocm_alone() -> str:
    """Return what TVM says for AMD where there is no ROCm."""
    try:
        tvm.compile(module(kernel(128, 128)), target=devices.target_of("gfx942"))
    except RuntimeError as error:
        return str(error)
    return "compiled"


def half_in(runtime: str) -> str:
    """Add one to a half, in TVM's own OpenCL C."""
    import pyopencl as cl

    source = devices.source(tvm.IRModule({"half": half}), devices.target_of("opencl"))
    try:
        queue = opencl.device(runtime).queue
    except NoDeviceError as error:
        return f"unavailable: {error}"
    try:
        built = cl.Kernel(cl.Program(opencl.device(runtime).context, source).build(), "half_kernel")
    except cl.Error as error:
        return opencl._words(error)
    a = np.ones(128, np.float16)
    buffer = cl.Buffer(opencl.device(runtime).context, cl.mem_flags.COPY_HOST_PTR, hostbuf=a)
    built(queue, (128,), (128,), buffer)
    cl.enqueue_copy(queue, a, buffer)
    queue.finish()
    if runtime == "oclgrind":
        sys.stderr.write(opencl._log().read_text(errors="replace"))
        sys.stderr.flush()
    return f"ran: {a[0]}"


def probe(runtime: str) -> str:
    """Try an empty kernel."""
    try:
        opencl.device(runtime)
    except NoDeviceError as error:
        return f"unavailable: {error}"
    return "works"


def context_of_a_queue() -> str:
    """Ask a queue of Intel's runtime for its context, after nobody else holds the context."""
    import pyopencl as cl

    queue = cl.CommandQueue(cl.Context(platform_of("intel-cpu").get_devices()[:1]))
    try:
        return str(queue.context)
    except cl.Error as error:
        return str(error)


def mhc_pre_without(barrier: int | None) -> str:
    """Run the kernel in Oclgrind without one of its barriers: return the largest error of h_post, or what it raises.

    With 5 streams the rows of phi come in two groups.
    """
    torch.manual_seed(0)
    inputs = op.MhcPreInputs(torch.randn(1, 5, 64), torch.randn(35, 320), torch.ones(3), torch.zeros(35), None)
    out, right = op.empty_outputs(inputs), op.empty_outputs(inputs)
    for tensor in out:
        tensor.fill_(float("nan"))
    load("reference", "mhc_pre").run(inputs, right)
    build, barrier_call = opencl.build, "barrier(CLK_LOCAL_MEM_FENCE);"

    def spoiled(runtime: str, source: str) -> object:
        if barrier is not None:
            parts = source.split(barrier_call)
            assert len(parts) == 4 + 1, "the kernel has other barriers now: name the four that are needed"
            source = barrier_call.join(parts[: barrier + 1]) + ";" + barrier_call.join(parts[barrier + 1 :])
        return build(runtime, source)

    gpu.opencl.build = spoiled
    try:
        load("tvm", "mhc_pre").run(inputs, out, "oclgrind")
    except RuntimeError as error:
        return str(error)
    finally:
        gpu.opencl.build = build
    return str(float((out.h_post - right.h_post).abs().max()))


def gradients_without(barrier: int | None) -> str:
    """Run the gradients in Oclgrind in small tiles: return the largest error of them all, or what Oclgrind reports.

    A span has three tiles of tokens, the last one not full, and the rows of phi come in several groups.
    ``barrier`` leaves out one of those around a tile.
    """
    torch.manual_seed(0)
    tensors = (torch.randn(9, 2, 70), torch.randn(8, 140) / 12, torch.rand(3), torch.randn(8), torch.rand(2, 70))
    forward = load("reference", "mhc_pre").golden(op.MhcPreInputs(*tensors))
    grads = (torch.randn(9, 70), torch.randn(9, 2), torch.randn(9, 2, 2))
    inputs = op.MhcPreBackwardInputs(*tensors, forward.m.float(), forward.r.float(), *grads)
    out, right = op.empty_grads(inputs), load("reference", "mhc_pre", "backward").golden(inputs)
    for tensor in out:
        tensor.fill_(float("nan"))
    build, barrier_call = opencl.build, "barrier(CLK_LOCAL_MEM_FENCE);"

    def spoiled(runtime: str, source: str) -> object:
        kernels = re.split(r"(?=__kernel)", source)
        tiled = [place for place, text in enumerate(kernels) if "waiting" in text for _ in range(2)]
        assert len(tiled) == 4, "other launches have tiles now"
        if barrier is not None:
            parts = kernels[tiled[barrier]].split(barrier_call)
            cut = barrier % 2 + 1
            kernels[tiled[barrier]] = barrier_call.join(parts[:cut]) + ";" + barrier_call.join(parts[cut:])
        return build(runtime, "".join(kernels))

    sizes = {"_TILE": 2, "_ROWS": 3, "_most_spans": lambda spec: 2}
    with mock.patch.multiple(backward_gpu, **sizes), mock.patch.object(gpu.opencl, "build", spoiled):
        try:
            load("tvm", "mhc_pre", "backward").run(inputs, out, "oclgrind")
        except RuntimeError as error:
            return str(error)
    return str(max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(out, right, strict=True)))


def too_many_streams() -> str:
    """Return what running and compiling refuse 17 streams with, or what they do instead."""
    inputs = op.MhcPreInputs(torch.zeros(1, 17, 8), torch.zeros(323, 136), torch.zeros(3), torch.zeros(323), None)
    out, kernel = op.empty_outputs(inputs), load("tvm", "mhc_pre")
    calls: list[Callable[[], object]] = [lambda: kernel.run(inputs, out), lambda: kernel.run(inputs, out, "oclgrind")]
    calls.append(lambda: kernel.compile(inputs.spec, "sm_90"))  # type: ignore[attr-defined]
    texts = set()
    for call in calls:
        try:
            texts.add(f"it returns {call()}")
        except NotSupportedError as error:
            texts.add(str(error))
    return "; ".join(texts)


PROGRAMS: dict[str, Callable[[], str]] = {
    "fits": lambda: compiles(kernel(128, 128)),
    "threads": lambda: compiles(kernel(2048, 2048)),
    "shared": lambda: compiles(kernel(128, 512 * 256)),
    "unbound": lambda: compiles(unbound),
    "unequal": lambda: compiles(unequal),
    "rocm-alone": rocm_alone,
    "streams": too_many_streams,
    "runtimes": lambda: ", ".join(k for k in ("cuda", "rocm", "metal", "opencl") if tvm.runtime.enabled(k)) or "none",
    **{f"half-{runtime}": lambda runtime=runtime: half_in(runtime) for runtime in RUNTIMES},  # type: ignore[misc]
    **{f"probe-{runtime}": lambda runtime=runtime: probe(runtime) for runtime in RUNTIMES},  # type: ignore[misc]
    "context-of-a-queue": context_of_a_queue,
    "whole": lambda: mhc_pre_without(None),
    **{f"without-{i}": lambda i=i: mhc_pre_without(i) for i in range(4)},  # type: ignore[misc]
    "gradients": lambda: gradients_without(None),
    **{f"gradients-without-{i}": lambda i=i: gradients_without(i) for i in range(4)},  # type: ignore[misc]
}

if __name__ == "__main__":
    for name in sys.argv[1:] or PROGRAMS:
        os.write(2, f"\nPROGRAM {name}\n".encode())  # among what the compilers and interpreters write
        os.write(2, f"\nRESULT {PROGRAMS[name]()}\n".encode())
