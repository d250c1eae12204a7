"""LLVM's CPU targets: a script becomes a function to call here, or a library or a program for another CPU."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import tvm
import tvm_ffi
from tvm.runtime import Executable
from tvm.target import Target
from tvm.target import codegen as llvm

from mhc.backends import Artifact, stage
from mhc.backends.tvm.openmp import launched_by_openmp
from mhc.toolchain.cpus import CPUS, Cpu, foreign
from mhc.toolchain.emulator import RUNNER, Emulated, Operand, program

# Both concern TVM's own threads, which kernels get where this process has no OpenMP. TVM looks at them when a thread
# first runs a kernel. Left alone it takes half of the logical cores, and pins the calling thread, and with it every
# thread that PyTorch starts later, to as many of them as it took.
os.environ.setdefault("TVM_NUM_THREADS", str(torch.get_num_threads()))
os.environ.setdefault("TVM_BIND_THREADS", "0")

# The features of x86 that LLVM puts into code of this kind on its own, by the beginnings of their names.
_INSTRUCTIONS = ("sse", "ssse", "avx", "fma", "f16c", "bmi", "lzcnt", "popcnt", "movbe")

# Makes the function `name` for a spec and a target.
Script = Callable[[Any, Target], tvm.tirx.PrimFunc]


class CpuForm:
    """The script of a kernel, compiled once for each spec and target."""

    def __init__(self, name: str, script: Script) -> None:
        self._name = name
        self._script = script
        self._executable = functools.cache(self._build)
        self.function = functools.cache(self._load)
        self.artifact = functools.cache(self._export)
        self._emulated = functools.cache(self._program)

    def run(self, spec: Any, target: str | None, operands: Mapping[str, Operand]) -> None:
        """Run the kernel: in this process, or in an emulator where ``target`` is a CPU of another architecture.

        Raises:
            ValueError: the target is no CPU that can be had here, or has instructions that this CPU lacks.
            mhc.backends.NoDeviceError: the emulator or the compiler of the other architecture is not installed.
        """
        cpu = foreign(target)
        if cpu is None:
            function = self.function(spec, target)
            with stage("launch"):
                function(*operands.values())
            return
        emulated = self._emulated(spec, target, cpu)
        with stage("launch"):
            emulated.run([(0, operands)])

    def _load(self, spec: Any, target: str | None) -> Callable[..., None]:
        """Return the kernel in this process; ``target`` is a CPU that LLVM knows, None this one.

        Raises:
            ValueError: the target is not a CPU of this architecture, or has instructions that this CPU lacks.
        """
        with stage("lower"):
            lacking = _lacking(_target(self._name, target)) if target else ()
            if lacking:
                raise ValueError(f"{self._name}: this CPU cannot run code for {target}: it lacks {', '.join(lacking)}")
        executable = self._executable(spec, target)
        with stage("compile"), launched_by_openmp():
            return executable[self._name]

    def _export(self, spec: Any, target: str) -> Artifact:
        """Return a shared library with the kernel in TVM's calling convention, for ``tvm.runtime.load_module``.

        For a CPU of another architecture it is LLVM's object file.

        Raises:
            ValueError: the target is no CPU that LLVM knows.
        """
        if foreign(target):
            return Artifact("object", target, self._object(spec, target))
        executable = self._executable(spec, target)
        with stage("compile"), tempfile.TemporaryDirectory() as folder:
            library = Path(folder, f"{self._name}.so")
            executable.export_library(str(library), options=["-lm"])
            return Artifact("shared-object", target, library.read_bytes())

    def _object(self, spec: Any, target: str) -> bytes:
        executable = self._executable(spec, target)
        with stage("compile"), tempfile.TemporaryDirectory(prefix="mhc-") as folder:
            path = Path(folder, f"{self._name}.o")
            executable.mod.write_to_file(str(path), "o")
            return path.read_bytes()

    def _program(self, spec: Any, target: str, cpu: Cpu) -> Emulated:
        linked = self._object(spec, target)
        with stage("compile"):
            adapter = {"tvm.cc": (RUNNER / "tvm.cc").read_text(encoding="utf-8")}
            symbol = f"-DMHC_KERNEL=__tvm_ffi_{self._name}"
            return Emulated(program(cpu, adapter, [symbol], tvm_ffi.libinfo.include_paths(), linked), cpu)

    def _build(self, spec: Any, target: str | None) -> Executable:
        with stage("lower"):
            llvm_target = _target(self._name, target)
            module = tvm.IRModule({self._name: self._script(spec, llvm_target)})
        with stage("compile"):
            return tvm.compile(module, target=llvm_target)


@functools.cache
def _target(operator: str, name: str | None) -> Target:
    """Return LLVM's target for the CPU of that name, or for this CPU. It lacks the features that a hypervisor hides.

    TVM itself compiles for a generic CPU, and goes on, when it does not know the name.
    """
    if name is None:
        host = Target({"kind": "llvm", "mcpu": llvm.llvm_get_system_cpu()})
        return Target({**host.export(), "mattr": [f"-{feature}" for feature in _lacking(host)]})
    if name in CPUS:
        return Target(CPUS[name].llvm)
    if not llvm.llvm_is_valid_cpu(name, llvm.llvm_get_system_triple()):
        raise ValueError(f"{operator}: the tvm backend has the operator for LLVM CPU targets only, not for {name!r}")
    return Target({"kind": "llvm", "mcpu": name})


@functools.cache
def _lacking(target: Target) -> tuple[str, ...]:
    """Return the instructions that the target's code may use and that this CPU does not have."""
    host = tvm.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    return tuple(
        feature
        for feature in sorted(llvm.llvm_get_cpu_features(target))
        if feature.startswith(_INSTRUCTIONS) and feature in host and not host[feature]
    )
