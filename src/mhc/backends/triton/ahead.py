"""Ahead-of-time compilation with Triton: the binary and the resources that it uses, without a device."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, CompiledKernel
from triton.runtime.jit import JITFunction

from mhc.backends import Artifact, stage

# From 3.7 on every constant has an entry among the attributes of a launch, and before only strings have one.
_ALL_CONSTANTS = tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 7)


def gpu_target(name: str) -> GPUTarget:
    """Return Triton's description of ``sm_90``, ``gfx942`` and so on; gfx9 has 64 threads a wave, the others 32."""
    if (target := described(name)) is None:
        raise ValueError(f"triton: {name!r} is no target of NVIDIA (sm_90) or AMD (gfx942)")
    return target


def described(name: str) -> GPUTarget | None:
    """Return Triton's description of any target that a GPU may be, and None for a name that is none of a GPU."""
    if not re.fullmatch(r"sm_\d+|gfx[0-9a-f]+", name):
        return None
    if name.startswith("sm_"):
        return GPUTarget("cuda", int(name.removeprefix("sm_")), 32)
    return GPUTarget("hip", name, 64 if name.startswith("gfx9") else 32)


def target_name(target: GPUTarget) -> str:
    """Return the name of a target, as :func:`gpu_target` takes it."""
    return f"sm_{target.arch}" if target.backend == "cuda" else str(target.arch)


def compile_ahead(
    kernel: JITFunction,
    types: tuple[str | None, ...],
    constants: dict[str, Any],
    options: dict[str, Any],
    name: str,
    target: GPUTarget,
) -> Artifact:
    """Compile ``kernel`` for ``target`` and read its resources.

    ``types`` are the types of the arguments that are no ``constants``, None for an argument that is None.
    The pointers are taken as PyTorch's allocator gives them: aligned to 16 bytes and, which matters on
    AMD only, with less than 2 GiB behind them. Nobody checks here whether the target could launch it.
    """
    with stage("lower"):
        attribute = [["tt.divisibility", 16]]
        if target.backend == "hip":
            attribute.append(["tt.pointer_range", 32])
        arguments = dict(zip(kernel.arg_names, types, strict=False))
        signature = {name: type_ or "constexpr" for name, type_ in arguments.items()}
        signature |= dict.fromkeys(constants, "constexpr")
        constants = constants | {name: None for name, type_ in arguments.items() if type_ is None}
        # As a launch has them, constants too: then a launch finds this entry in the cache.
        attributes = {
            (index,): attribute if signature[name].startswith("*") else []
            for index, name in enumerate(kernel.arg_names)
            if signature[name].startswith("*")
            or (signature[name] == "constexpr" and (_ALL_CONSTANTS or isinstance(constants.get(name), str)))
        }
        source = ASTSource(kernel, signature, constants, attributes)
    with stage("compile"):
        compiled = triton.compile(source, target=target, options=options)
        threads = {"threads": compiled.metadata.num_warps * target.warp_size}
        if target.backend == "cuda":
            resources = _cuda_resources(compiled, target)
            return Artifact("cubin", name, compiled.asm["cubin"], resources | threads)
        return Artifact("hsaco", name, compiled.asm["hsaco"], _hip_resources(compiled) | threads)


def _cuda_resources(compiled: CompiledKernel, target: GPUTarget) -> dict[str, int]:
    """Return registers and stack as the binary states them, and spills as ptxas reports them."""
    from triton import knobs

    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder, "kernel.cubin")
        cubin.write_bytes(compiled.asm["cubin"])
        usage = _output(knobs.nvidia.cuobjdump.path, "--dump-resource-usage", cubin)
    stack = _number(r"\bSTACK:(\d+)", usage)
    return {
        "registers": _number(r"\bREG:(\d+)", usage),
        "stack_bytes": stack,
        # Registers are spilled to the stack, so that a kernel without a stack has no spills.
        "spill_bytes": _spills(compiled, target) if stack else 0,
        # Asked for at the launch; what the binary states is the KiB that the system keeps from sm_90 on.
        "shared_bytes": compiled.metadata.shared,
    }


def _spills(compiled: CompiledKernel, target: GPUTarget) -> int:
    """Assemble once more, as Triton does, and return the bytes of spill stores.

    A binary does not show which uses of the stack are spills, and Triton discards the log of ptxas.
    """
    from triton.backends.nvidia.compiler import get_ptxas, sm_arch_from_capability

    fusion = [] if compiled.metadata.enable_fp_fusion else ["--fmad=false"]
    arch = sm_arch_from_capability(target.arch)
    with tempfile.TemporaryDirectory() as folder:
        ptx = Path(folder, "kernel.ptx")
        ptx.write_text(compiled.asm["ptx"])
        log = _output(
            get_ptxas(target.arch).path, "-lineinfo", *fusion, "-v", f"--gpu-name={arch}", ptx, "-o", f"{ptx}.o"
        )
    return _number(r"(\d+) bytes spill stores", log)


def _hip_resources(compiled: CompiledKernel) -> dict[str, int]:
    """Return what the metadata at the end of the assembly states."""
    names = {
        "registers": "vgpr_count",
        "scalar_registers": "sgpr_count",
        "spill_bytes": "vgpr_spill_count",
        "spilled_scalar_registers": "sgpr_spill_count",
        "stack_bytes": "private_segment_fixed_size",
        "shared_bytes": "group_segment_fixed_size",
    }
    assembly = compiled.asm["amdgcn"]
    resources = {name: _number(rf"^\s*(?:- )?\.{field}:\s*(\d+)", assembly) for name, field in names.items()}
    resources["spill_bytes"] *= 4  # registers
    # Triton declares none there: it asks for all of it at the launch.
    resources["shared_bytes"] += compiled.metadata.shared
    return resources


def _output(*command: str | Path) -> str:
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise ValueError(f"triton: {pattern!r} is not in the toolchain's output:\n{text[-2000:]}")
    return int(match[1])
