"""``mhc_pre`` for LLVM's CPU targets; one compilation serves every number of tokens."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
import tvm
from tvm.runtime import Executable
from tvm.target import Target
from tvm.target import codegen as llvm

from mhc.backends import Artifact, stage
from mhc.backends.tvm.script import ENTRY, script, tile
from mhc.ops.mhc_pre import MhcPreInputs, MhcPreOutputs, MhcPreSpec

# TVM looks at both when a thread first runs a kernel. Left alone it takes half of the logical cores, and pins the
# calling thread, and with it every thread that PyTorch starts later, to as many of them as it took.
os.environ.setdefault("TVM_NUM_THREADS", str(torch.get_num_threads()))
os.environ.setdefault("TVM_BIND_THREADS", "0")

# The features of x86 that LLVM puts into code of this kind on its own, by the beginnings of their names.
_INSTRUCTIONS = ("sse", "ssse", "avx", "fma", "f16c", "bmi", "lzcnt", "popcnt", "movbe")


def run(inputs: MhcPreInputs, out: MhcPreOutputs, target: str | None = None) -> None:
    """Run on the CPU, in the tensors' own memory; ``target`` is a CPU that LLVM knows, None this one.

    Raises:
        ValueError: the target is not a CPU of this architecture, or has instructions that this CPU lacks.
    """
    with stage("lower"):
        lacking = _lacking(_target(target)) if target else ()
        if lacking:
            raise ValueError(f"mhc_pre: this CPU cannot run code for {target}: it lacks {', '.join(lacking)}")
    kernel = _kernel(inputs.spec, target)
    tokens = inputs.x.shape[0]
    with stage("launch"):
        kernel(
            inputs.x.view(tokens, -1),
            inputs.phi,
            inputs.alpha,
            inputs.bias,
            None if inputs.gamma is None else inputs.gamma.view(-1),
            out.h_in,
            out.h_post,
            out.h_res.view(tokens, -1),
        )


@functools.cache
def compile(spec: MhcPreSpec, target: str) -> Artifact:
    """A shared library with the kernel in TVM's calling convention, for ``tvm.runtime.load_module``.

    Raises:
        ValueError: the target is not a CPU that LLVM knows for the architecture of this machine.
    """
    executable = _executable(spec, target)
    with stage("compile"), tempfile.TemporaryDirectory() as folder:
        library = Path(folder, f"{ENTRY}.so")
        executable.export_library(str(library), options=["-lm"])
        return Artifact("shared-object", target, library.read_bytes())


@functools.cache
def _kernel(spec: MhcPreSpec, target: str | None) -> Callable[..., None]:
    executable = _executable(spec, target)
    with stage("compile"):
        return executable[ENTRY]


@functools.cache
def _executable(spec: MhcPreSpec, target: str | None) -> Executable:
    with stage("lower"):
        llvm_target = _target(target)
        module = script(spec, tile(spec, llvm_target))
    with stage("compile"):
        return tvm.compile(module, target=llvm_target)


@functools.cache
def _target(name: str | None) -> Target:
    """LLVM for the CPU of that name, or for this one less what a hypervisor hides of it.

    TVM itself compiles for a generic CPU, and goes on, when it does not know the name.
    """
    if name is None:
        host = Target({"kind": "llvm", "mcpu": llvm.llvm_get_system_cpu()})
        return Target({**host.export(), "mattr": [f"-{feature}" for feature in _lacking(host)]})
    if not llvm.llvm_is_valid_cpu(name, llvm.llvm_get_system_triple()):
        raise ValueError(f"mhc_pre: the tvm backend has the operator for LLVM CPU targets only, not for {name!r}")
    return Target({"kind": "llvm", "mcpu": name})


@functools.cache
def _lacking(target: Target) -> tuple[str, ...]:
    """Instructions that the target's code may use and that this CPU does not have."""
    host = tvm.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    return tuple(
        feature
        for feature in sorted(llvm.llvm_get_cpu_features(target))
        if feature.startswith(_INSTRUCTIONS) and feature in host and not host[feature]
    )
