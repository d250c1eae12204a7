"""The compilers that turn TileLang's source into machine code: nvcc, hipcc and the C++ compiler."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from pathlib import Path

import tilelang
from tilelang.contrib.cc import get_cplus_compiler
from tilelang.env import CUTLASS_INCLUDE_DIR, TILELANG_TEMPLATE_PATH

from mhc.backends.tilelang.headers import with_fetch, with_few_headers, without_half
from mhc.toolchain import emulator
from mhc.toolchain.cache import Entry, cached
from mhc.toolchain.compilers import (
    clang_resources,
    compile_source,
    cubin_flags,
    find_nvcc,
    identity,
    ptxas_resources,
)
from mhc.toolchain.cpus import CPUS, Cpu

# None of these changes a result: no addition is reordered, no operation becomes approximate. TileLang's C reads the
# bits of a float through a pointer to an integer, hence the first; the peeling limit keeps the loops over lanes whole,
# so that they become vectors; sqrtf need not set errno; g++ would otherwise load an operand once for each product, and
# write a vector's zeros in halves, for which a load of the whole vector has to wait.
CPU_FLAGS = (
    "-fno-strict-aliasing",
    "-O3",
    "--param=max-completely-peel-times=7",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-tree-ter",
    "-fno-tree-loop-distribute-patterns",
    "-std=c++17",
    "-w",
)
_SHARED = ("-shared", "-fPIC")


def cubin(source: str, arch: str) -> tuple[bytes, dict[str, int]]:
    """Compile CUDA ``source`` for ``arch`` (``sm_90``): the machine code, and what ptxas reports of it."""
    includes = (TILELANG_TEMPLATE_PATH, CUTLASS_INCLUDE_DIR)
    compiler, flags, suffixes = find_nvcc(), cubin_flags(arch, "-std=c++17"), (".cu", ".cubin")
    short = with_few_headers(source, Path(TILELANG_TEMPLATE_PATH))
    data, log = _compile_shortest(compiler, flags, includes, short, source, suffixes)
    return data, ptxas_resources(log)


def hsaco(source: str, arch: str, hipcc: str) -> tuple[bytes, dict[str, int]]:
    """Compile HIP ``source`` for ``arch`` (``gfx942``): the code object, and what clang reports of it."""
    flags = ["--genco", f"--offload-arch={arch}", "-O3", "-std=c++17", "-Rpass-analysis=kernel-resource-usage"]
    data, log = _compile(hipcc, flags, (TILELANG_TEMPLATE_PATH,), source, (".hip", ".hsaco"))
    return data, clang_resources(log)


def shared_object(source: str, march: str) -> bytes:
    """Compile C++ ``source`` for the CPU ``march``: the shared object."""
    source = with_fetch(source)
    flags = [*CPU_FLAGS, *_SHARED, *(CPUS[march].flags if march in CPUS else (f"-march={march}",))]
    if platform.machine() == "x86_64":
        # Compilers prefer half vectors on machines that have whole ones; without AVX-512 this changes nothing.
        flags.append("-mprefer-vector-width=512")
    includes, short = (TILELANG_TEMPLATE_PATH,), without_half(source, Path(TILELANG_TEMPLATE_PATH))
    data, _ = _compile_shortest(get_cplus_compiler(), flags, includes, short, source, (".cc", ".so"))
    return data


def emulated_program(source: str, symbols: Sequence[str], cpu: Cpu) -> bytes:
    """Compile C++ ``source`` for a CPU of another architecture: a program that calls the functions of these names.

    Raises:
        mhc.backends.NoDeviceError: there is no compiler for the CPU.
    """
    source = with_fetch(source)
    end = f'\n#include "functions.h"\nMHC_FUNCTIONS({", ".join(symbols)})\n'
    short = without_half(source, Path(TILELANG_TEMPLATE_PATH))
    if short is not None:
        try:
            return emulator.program(cpu, {"kernel.cc": short + end}, CPU_FLAGS)
        except RuntimeError:
            # As in _compile_shortest: the error of the source as TileLang wrote it is the one that counts.
            pass
    return emulator.program(cpu, {"kernel.cc": source + end}, CPU_FLAGS, [TILELANG_TEMPLATE_PATH])


def static_shared_bytes(source: str) -> int:
    """Return the bytes of the fp32 shared arrays that ``source`` declares."""
    return 4 * sum(int(size) for size in re.findall(r"__shared__[^;\n]*\bfloat \w+\[(\d+)\];", source))


def _compile_shortest(
    compiler: str,
    flags: list[str],
    includes: tuple[str, ...],
    short: str | None,
    source: str,
    suffixes: tuple[str, str],
) -> tuple[bytes, str]:
    """Compile ``short``, the source with few headers, or ``source`` as TileLang wrote it where that is needed."""
    if short is not None:
        try:
            return _compile(compiler, flags, includes, short, suffixes)
        except RuntimeError:
            # It may use a name of the templates. The error of the source as TileLang wrote it is the one that counts.
            pass
    return _compile(compiler, flags, includes, source, suffixes)


def _compile(
    compiler: str, flags: list[str], includes: tuple[str, ...], source: str, suffixes: tuple[str, str]
) -> tuple[bytes, str]:
    """Run ``compiler`` on ``source``, or take what it made of it before: its output file and its log."""

    def key() -> list[str]:
        # The folders of the headers differ between environments that hold the same TileLang: its version stands for
        # them.
        return [source, *flags, identity(compiler, tuple(flags)), tilelang.__version__]

    def make() -> Entry:
        command = [compiler, *flags, *(f"-I{include}" for include in includes)]
        data, log = compile_source(command, source, *suffixes)
        return data, {"log": log}

    data, facts = cached(key, make)
    return data, facts["log"]
