"""Make AscendC of TileLang's kernels, and machine code of that where Huawei's compiler ``bisheng`` is.

``bisheng`` is in Huawei's CANN toolkit alone. TileLang's own ``compile`` ends without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tilelang
from tilelang import tvm
from tilelang.contrib import bisheng
from tilelang.env import TILELANG_TEMPLATE_PATH

from mhc.backends import Artifact, stage
from mhc.backends.tilelang_ascend.tiles import THREADS


@dataclass(frozen=True)
class Lowered:
    """The AscendC of a kernel, its parameters in order, its cores as an expression of them, and its bytes of memory."""

    source: str
    parameters: tuple[Any, ...]
    cores: Any
    shared_bytes: int


_KERNEL = re.compile(r'^extern "C" __global__ \w+ void (\w+)\(', re.MULTILINE)
_STORE = "asc_copy_ub2gm_align("
_VECTOR_FUNCTION, _CALL = re.compile(r"^__simt_vf__ .* void (\w+)\(", re.MULTILINE), re.compile(r"asc_vf_call<(\w+)>")


def compile_kernel(function: Callable[[Any], Any], spec: Any, target: str, arch: str) -> Artifact:
    """Compile the kernel that ``function`` makes of a specialisation, for the vendor's ``arch``.

    Raises:
        RuntimeError: what came out is no AscendC of a kernel, or ``bisheng`` failed.
    """
    code = lowered(function, spec)
    resources = {"threads": THREADS, "shared_bytes": code.shared_bytes}
    with stage("compile"):
        try:
            bisheng.find_bisheng_path()
        except RuntimeError:  # it is not on this machine
            return Artifact("ascendc-source", target, code.source.encode(), resources)
        options = [f"-I{TILELANG_TEMPLATE_PATH}"]
        binary = bisheng.compile_ascend(code.source, target_format="aibin", npu_arch=arch, options=options)
        return Artifact("npu-object", target, bytes(binary), resources)


def lowered(function: Callable[[Any], Any], spec: Any) -> Lowered:
    """Return the AscendC of a kernel for a specialisation.

    Raises:
        RuntimeError: what came out is no AscendC of a kernel.
    """
    with stage("lower"):
        target = tvm.target.Target({"kind": "ascend"})
        with tvm.transform.PassContext(opt_level=3), target:
            artifact = tilelang.lower(function(spec), target=target)
        (made,) = artifact.device_mod.functions.values()
        source = str(artifact.kernel_source)
        check(source, function.__name__)
    cores = made.attrs["thread_extent"]["blockIdx.x"]
    return Lowered(source, tuple(made.params), cores, int(made.attrs["dyn_shared_memory_buf"]))


def check(source: str, name: str) -> None:
    """Hold that a text is the AscendC of one kernel that stores something and calls its vector functions.

    Raises:
        RuntimeError: it is not.
    """
    kernels, functions, calls = (set(pattern.findall(source)) for pattern in (_KERNEL, _VECTOR_FUNCTION, _CALL))
    fault = "" if kernels == {f"{name}_kernel"} else f"has the kernels {sorted(kernels)}"
    fault = fault or ("" if _STORE in source else "stores nothing")
    fault = fault or ("" if functions == calls else f"has the vector functions {sorted(functions)}, of {sorted(calls)}")
    if fault:
        raise RuntimeError(f"tilelang: what it wrote for {name} {fault}")
