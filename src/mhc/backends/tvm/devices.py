"""Compilers for GPUs: TVM's source for nvcc and ocloc, LLVM's AMDGPU objects, and source for Metal and OpenCL."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tvm
from tvm.target import Target
from tvm.target import codegen as llvm

from mhc.backends.tvm.runtimes import RUNTIMES
from mhc.toolchain import intel, webgpu

_BARRIER = """
define void @mhc_barrier() #0 {
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  ret void
}

declare void @llvm.amdgcn.s.barrier()

attributes #0 = { convergent nounwind alwaysinline }
"""


# TVM writes a bare barrier, which orders no memory: GPUs from gfx90a on pass it while the wave's writes to the LDS are
# on their way, and LLVM may move accesses over it. TVM takes one rule, also where this module is imported anew.
if tvm.ir.Op.get("tirx.tvm_storage_sync").get_attr("rocm.FLowerIntrinsic") is None:
    tvm.tirx.register_intrin_lowering(
        "tirx.tvm_storage_sync",
        target="rocm",
        f=lambda call: tvm.tirx.call_extern("void", "mhc_barrier") if call.args[0].value == "shared" else call,
    )


@functools.cache
def target_of(name: str) -> Target:
    """Return TVM's target for ``sm_90``, ``gfx942``, ``bmg``, ``metal``, ``lavapipe``, or ``opencl`` and its
    runtimes.

    Raises:
        ValueError: LLVM does not know the AMD GPU. If it compiled for it all the same, LLVM would end the process.
    """
    if name == "metal":
        device = {"kind": "metal"}
    elif name in webgpu.TARGETS:
        device = {"kind": "webgpu"}
    elif name in ("opencl", *RUNTIMES, *intel.DEVICES):
        device = {"kind": "opencl"}
    elif name.startswith("sm_"):
        device = {"kind": "cuda", "arch": name}
    elif llvm.llvm_is_valid_cpu(name, "amdgcn-amd-amdhsa"):
        device = {"kind": "rocm", "mcpu": name}
    else:
        raise ValueError(f"the tvm backend knows no GPU {name!r}; LLVM has no AMD GPU of that name")
    # TVM writes a function for the host, too, which nobody calls. As C it is text; LLVM would compile it.
    return Target(device, host={"kind": "c"})


def source(module: tvm.IRModule, target: Target) -> str:
    """Return the module's scripts as TVM writes them in CUDA, Metal, OpenCL C or WGSL. Nothing is compiled.

    Raises:
        ValueError: there is no device code. TVM makes only host code of a script that binds nothing to threads.
    """
    imports = tvm.compile(module, target=target).mod.imports
    text = "\n".join(device.inspect_source() for device in imports)
    for name in (variable.name_hint for variable in module.functions):
        if f"{name}_kernel" not in text:
            raise ValueError(f"TVM wrote no device code for {name}")
    return text


def code_object(unlinked: bytes) -> bytes | None:
    """Link an AMD object with LLVM's linker into what the HIP runtime loads; return None where there is no linker.

    Raises:
        RuntimeError: the linker failed; the message is its own.
    """
    names = ("ld.lld", *(f"ld.lld-{version}" for version in range(25, 16, -1)))
    linker = next((path for name in names if (path := shutil.which(name))), None)
    if linker is None:
        return None
    with tempfile.TemporaryDirectory(prefix="mhc-") as folder:
        before, after = Path(folder, "kernel.o"), Path(folder, "kernel.hsaco")
        before.write_bytes(unlinked)
        done = subprocess.run([linker, "-shared", "-o", after, before], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr or f"{linker} exited with status {done.returncode}")
        return after.read_bytes()


def amdgpu_object(module: tvm.IRModule, arch: str) -> tuple[bytes, dict[str, int]]:
    """Compile for ``arch`` (``gfx942``), and return LLVM's object, not linked, and the resources in its metadata.

    Raises:
        RuntimeError: a kernel is not in the object, or calls a function of ROCm's library, which is not linked either.
    """
    objects: list[bytes] = []

    def link(unlinked: Any) -> Any:
        objects.append(bytes(unlinked))
        return unlinked

    with (
        tempfile.NamedTemporaryFile("w", prefix="mhc-", suffix=".ll") as barrier,
        # TVM asks for ROCm's libraries and linker even for a kernel that calls no library.
        _instead("tvm_callback_rocm_bitcode_path", lambda *_: [barrier.name]),
        _instead("tvm_callback_rocm_link", link),
        # It would write to shared memory that two buffers use in turn through a pointer to global memory.
        tvm.transform.PassContext(config={"tirx.disable_storage_rewrite": True}),
    ):
        barrier.write(_BARRIER)
        barrier.flush()
        tvm.compile(module, target=target_of(arch))
    (data,) = objects
    for name in (variable.name_hint for variable in module.functions):
        if f"{name}_kernel".encode() not in data:
            raise RuntimeError(f"TVM wrote no device code for {name}")
    if called := re.search(rb"__ocml_\w+", data):
        raise RuntimeError(f"the object calls {called[0].decode()}, which is nowhere")
    keys = {
        "registers": b".vgpr_count",
        "shared_bytes": b".group_segment_fixed_size",
        "stack_bytes": b".private_segment_fixed_size",
        "spill_bytes": b".vgpr_spill_count",
    }
    resources = {name: number for name, key in keys.items() if (number := _most(key, data)) is not None}
    if "spill_bytes" in resources:
        resources["spill_bytes"] *= 4
    return data, resources


@contextmanager
def _instead(name: str, function: Any) -> Iterator[None]:
    """Put another function under a global name of TVM's, for a while."""
    before = tvm.get_global_func(name)
    tvm.register_global_func(name, function, override=True)
    try:
        yield
    finally:
        tvm.register_global_func(name, before, override=True)


def _most(key: bytes, data: bytes) -> int | None:
    """Return the largest of the unsigned integers that follow a key in MessagePack, or None."""
    numbers = []
    for match in re.finditer(re.escape(key), data):
        at = match.end()
        size = {0xCC: 1, 0xCD: 2, 0xCE: 4}.get(data[at])
        numbers.append(data[at] if size is None else int.from_bytes(data[at + 1 : at + 1 + size], "big"))
    return max(numbers, default=None)
