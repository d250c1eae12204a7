"""The compilers of a source: nvcc for NVIDIA, hipcc or clang for AMD, and a C++ compiler for CPUs."""

from __future__ import annotations

import functools
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence

from mhc.backends import Artifact, stage
from mhc.backends.cpp.source import Source
from mhc.toolchain.cache import Entry, cached
from mhc.toolchain.compilers import (
    clang_resources,
    compile_source,
    cubin_flags,
    find_nvcc,
    identity,
    ptxas_resources,
)

THREADS = 128  # of every block: THREADS in device.h

# None of these changes a result. The kernels read memory in packs of four elements, hence the first.
_CPU_FLAGS = ("-fno-strict-aliasing", "-fno-exceptions", "-fno-rtti", "-fno-math-errno", "-fvisibility=hidden", "-O2")
_CLANGS = ("clang++", *(f"clang++-{version}" for version in range(25, 16, -1)))
# Without ROCm: the kernels need nothing of its headers and libraries.
_BARE = ("-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib")


@functools.cache
def artifact(source: Source, target: str, kernels: tuple[str, ...] = (), threads: int = THREADS) -> Artifact:
    """Compile for ``sm_90``, ``gfx942`` or ``x86-64-v3``; the resources are the most that one of ``kernels`` uses.

    All kernels of the source are in the artifact. AMD's targets need hipcc, or a clang that knows the GPU with LLVM's
    linker; without them the artifact is the source.

    Raises:
        FileNotFoundError: there is no nvcc, or no C++ compiler.
        RuntimeError: the compiler failed; the message is its own.
    """
    with stage("compile"):
        if target.startswith("sm_"):
            flags = cubin_flags(source.target_for_compiler(target), "-std=c++17")
            data, log = _compile(find_nvcc(), flags, source, (".cu", ".cubin"))
            return Artifact("cubin", target, data, {**_resources(log, kernels), "threads": threads})
        if target.startswith("gfx"):
            command = _amd_command(target)
            if command is None:
                return Artifact("hip-source", target, source.text.encode(), {"threads": THREADS})
            compiler, *flags = command
            data, log = _compile(compiler, flags, source, (".hip", ".hsaco"))
            return Artifact("hsaco", target, data, {**_resources(log, kernels), "threads": THREADS})
        flags = [*_CPU_FLAGS, f"-march={target}", "-std=c++17", "-shared", "-fPIC", "-x", "c++"]
        data, _ = _compile(find_cpu_compiler(), flags, source, (".cc", ".so"))
        return Artifact("shared-object", target, data)


def find_cpu_compiler() -> str:
    """Return the C++ compiler on ``PATH``.

    Raises:
        FileNotFoundError: there is none.
    """
    for name in ("g++", *_CLANGS):
        if path := shutil.which(name):
            return path
    raise FileNotFoundError("g++ is missing: the cpp backend compiles its kernels for the CPU with it")


def cpu_target() -> str:
    """Return the CPU that kernels are compiled for where nobody names one."""
    return "x86-64-v3" if platform.machine() == "x86_64" else "native"


def _amd_command(target: str) -> list[str] | None:
    """Return the compiler for an AMD GPU with its flags, or None where there is none."""
    flags = [f"--offload-arch={target}", "-O3", "-std=c++17", "-Rpass-analysis=kernel-resource-usage"]
    if hipcc := shutil.which("hipcc"):
        return [hipcc, "--genco", *flags]
    clangs = (path for name in _CLANGS if (path := shutil.which(name)))
    clang = next((path for path in clangs if target in _amd_gpus(path)), None)
    if clang is None or not any(shutil.which(name.replace("clang++", "ld.lld")) for name in _CLANGS):
        return None
    return [clang, *_BARE, *flags]


@functools.cache
def _amd_gpus(clang: str) -> tuple[str, ...]:
    """Return the AMD GPUs that a clang knows; an old one lacks the new ones, and some builds have none."""
    command = [clang, "--target=amdgcn-amd-amdhsa", "-nogpulib", "--print-supported-cpus"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return tuple(re.findall(r"\bgfx\w+", done.stdout + done.stderr))


def _compile(compiler: str, flags: Sequence[str], source: Source, suffixes: tuple[str, str]) -> tuple[bytes, str]:
    """Run ``compiler``, or take what it made of this source before: its output file and its log."""

    def make() -> Entry:
        data, log = compile_source([compiler, *flags], source.text, *suffixes)
        return data, {"log": log}

    data, facts = cached(lambda: [source.text, *flags, identity(compiler, tuple(flags))], make)
    return data, facts["log"]


def _resources(log: str, kernels: tuple[str, ...]) -> dict[str, int]:
    """Return the resources of the kernels of these names, of all where no part of the log is of one of them."""
    parts = re.split(r"(?=Compiling entry function '|remark: [^\n]*Function Name: )", log)
    own = [part for part in parts if any(re.match(rf"[^\n]*\b{name}\b", part) for name in kernels)]
    text = "".join(own) or log
    return {**ptxas_resources(text), **clang_resources(text)}
