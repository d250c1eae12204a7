"""GPUs: TVM's source through nvcc, LLVM's AMDGPU objects, and OpenCL by way of PyOpenCL."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import tvm
from tvm.target import Target
from tvm.target import codegen as llvm


@functools.cache
def target_of(name: str) -> Target:
    """TVM's target for ``sm_90``, ``gfx942`` or ``opencl``.

    Raises:
        ValueError: LLVM does not know the AMD GPU. Asked to compile for it all the same, it ends the process.
    """
    if name == "opencl":
        device = {"kind": "opencl"}
    elif name.startswith("sm_"):
        device = {"kind": "cuda", "arch": name}
    elif llvm.llvm_is_valid_cpu(name, "amdgcn-amd-amdhsa"):
        device = {"kind": "rocm", "mcpu": name}
    else:
        raise ValueError(f"mhc_pre: LLVM knows no AMD GPU {name!r}")
    return Target(device, host={"kind": "llvm"})


def source(module: tvm.IRModule, target: str) -> str:
    """What TVM writes in CUDA or OpenCL C for the one kernel of the module. It compiles nothing."""
    (device,) = tvm.compile(module, target=target_of(target)).mod.imports
    return device.inspect_source()


def find_nvcc() -> str:
    """Nvcc of this environment's own packages, else of ``CUDA_HOME``, else on the path.

    Raises:
        FileNotFoundError: there is none.
    """
    packages = importlib.util.find_spec("nvidia")
    homes = [Path(root, "cu13") for root in (packages.submodule_search_locations or ())] if packages else []
    if os.environ.get("CUDA_HOME"):
        homes.append(Path(os.environ["CUDA_HOME"]))
    found = next((str(home / "bin/nvcc") for home in homes if (home / "bin/nvcc").is_file()), shutil.which("nvcc"))
    if found is None:
        raise FileNotFoundError("no nvcc in this environment's packages, in CUDA_HOME or on PATH")
    return found


def cubin(source: str, arch: str) -> tuple[bytes, dict[str, int]]:
    """Compile CUDA ``source`` for ``arch`` (``sm_90``): the machine code, and what ptxas tells of it.

    Raises:
        RuntimeError: nvcc failed; the message is its own.
    """
    with tempfile.TemporaryDirectory(prefix="mhc-") as folder:
        text, binary = Path(folder, "kernel.cu"), Path(folder, "kernel.cubin")
        text.write_text(source)
        done = subprocess.run(
            [*(find_nvcc(), "-cubin", f"-arch={arch}", "-O3", "--resource-usage", "-w"), "-o", str(binary), str(text)],
            capture_output=True,
            text=True,
            check=False,
        )
        log = done.stderr + done.stdout
        if done.returncode:
            raise RuntimeError(log or f"nvcc exited with status {done.returncode}")
        data = binary.read_bytes()
    patterns = {
        "registers": r"Used (\d+) registers",
        "stack_bytes": r"(\d+) bytes stack frame",
        "shared_bytes": r"(\d+) bytes smem",
    }
    resources = {name: int(told[1]) for name, pattern in patterns.items() if (told := re.search(pattern, log))}
    spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    if spills:
        resources["spill_bytes"] = int(spills[1]) + int(spills[2])
    return data, resources


def code_object(unlinked: bytes) -> bytes | None:
    """What the HIP runtime loads, by LLVM's linker; None where there is none.

    Raises:
        RuntimeError: the linker failed; the message is its own.
    """
    names = ("ld.lld", *(f"ld.lld-{version}" for version in range(25, 16, -1)))
    linker = next((found for name in names if (found := shutil.which(name))), None)
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
    """Compile for ``arch`` (``gfx942``): LLVM's object, not linked, and what its metadata tells of the kernel."""
    objects: list[bytes] = []

    def link(unlinked: Any) -> Any:
        objects.append(bytes(unlinked))
        return unlinked

    # TVM wants ROCm's libraries and linker even for a kernel that calls nothing from a library.
    with _instead("tvm_callback_rocm_bitcode_path", lambda *_: []), _instead("tvm_callback_rocm_link", link):
        tvm.compile(module, target=target_of(arch))
    (data,) = objects
    keys = {
        "registers": b".vgpr_count",
        "shared_bytes": b".group_segment_fixed_size",
        "stack_bytes": b".private_segment_fixed_size",
        "spill_bytes": b".vgpr_spill_count",
    }
    resources = {name: number for name, key in keys.items() if (number := _number_after(key, data)) is not None}
    if "spill_bytes" in resources:
        resources["spill_bytes"] *= 4
    return data, resources


@contextmanager
def _instead(name: str, function: Any) -> Iterator[None]:
    """Another function under a global name of TVM's."""
    before = tvm.get_global_func(name)
    tvm.register_global_func(name, function, override=True)
    try:
        yield
    finally:
        tvm.register_global_func(name, before, override=True)


def _number_after(key: bytes, data: bytes) -> int | None:
    """The unsigned integer that follows a key in MessagePack."""
    at = data.find(key)
    if at < 0:
        return None
    at += len(key)
    size = {0xCC: 1, 0xCD: 2, 0xCE: 4}.get(data[at])
    return data[at] if size is None else int.from_bytes(data[at + 1 : at + 1 + size], "big")


@functools.cache
def _opencl() -> tuple[Any, Any]:
    """A context and a queue for the first CPU that an OpenCL platform offers."""
    import pyopencl as cl

    found = [device for platform in cl.get_platforms() for device in platform.get_devices(cl.device_type.CPU)]
    if not found:
        raise RuntimeError("no OpenCL platform has a CPU device")
    context = cl.Context(found[:1])
    return context, cl.CommandQueue(context)


@functools.cache
def opencl_kernel(source: str, name: str) -> Any:
    """Build OpenCL C for the CPU device."""
    import pyopencl as cl

    context, _ = _opencl()
    kernel = cl.Kernel(cl.Program(context, source).build(), name)
    # TVM orders the parameters as it likes, and calls each after the tensor it belongs to.
    signature = re.search(rf"{name}\(([^)]*)\)", source)
    assert signature
    return kernel, tuple(re.sub(r"_ptr$", "", part.split()[-1].strip("*")) for part in signature[1].split(","))


def opencl_launch(
    kernel: Any,
    tensors: Mapping[str, torch.Tensor | None],
    numbers: Mapping[str, int],
    results: tuple[torch.Tensor, ...],
    blocks: int,
    threads: int,
) -> None:
    """Copy the tensors to the device, run the kernel, and copy the results back."""
    import numpy as np
    import pyopencl as cl

    function, parameters = kernel
    context, queue = _opencl()
    copies = {}
    arguments: list[Any] = []
    for name in parameters:
        if name in numbers:
            arguments.append(np.int64(numbers[name]))
            continue
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        copies[name] = cl.Buffer(context, flags, hostbuf=_bytes(tensors[name]))
        arguments.append(copies[name])
    function(queue, (blocks * threads,), (threads,), *arguments)
    for name, buffer in copies.items():
        if any(tensors[name] is result for result in results):
            cl.enqueue_copy(queue, _bytes(tensors[name]), buffer)
    queue.finish()


def _bytes(tensor: Any) -> Any:
    """The tensor's own memory, for NumPy, which has no bf16."""
    return tensor.view(-1).view(torch.uint8).numpy()
