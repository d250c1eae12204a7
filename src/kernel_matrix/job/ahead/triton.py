"""Compile one kernel of Triton for one target, and read what its code needs."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Collection, Mapping
from typing import Any

from .artifact import Artifact
from .figures import code_bytes, figures_of_amd, figures_of_log
from .targets import Target, target_named


def compile_source(source: Any, target: Any, options: Mapping[str, Any]) -> tuple[bytes, dict[str, float]]:
    """Compile what Triton calls a source, and return the code and its figures. The log of ptxas is printed."""
    import triton
    from triton import knobs

    if hasattr(knobs.nvidia, "dump_ptxas_log"):
        knobs.nvidia.dump_ptxas_log = True  # its own call of ptxas says what it has used
    kernel = triton.compile(source, target=target, options=dict(options))
    code = kernel.asm["hsaco" if target.backend == "hip" else "cubin"]
    tensor_memory = getattr(kernel.metadata, "tmem_size", None) or 0
    return code, {
        "bytes": len(code),
        "code_bytes": code_bytes(code),
        "threads": kernel.metadata.num_warps * target.warp_size,
        "shared": kernel.metadata.shared,
        "warps": kernel.metadata.num_warps,
        "stages": getattr(kernel.metadata, "num_stages", 0) or 0,
        **({"tensor_memory": tensor_memory} if tensor_memory else {}),
        **(figures_of_amd(kernel.asm["amdgcn"]) if target.backend == "hip" else {}),
    }


def compile_kernel(
    kernel: Any,
    target: str,
    types: Mapping[str, str],
    *,
    constants: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    aligned: Collection[str] = (),
) -> Artifact:
    """Compile a kernel; its arguments are explained at :func:`kernel_matrix.job.ahead.of_triton`.

    Raises:
        ValueError: an argument of the kernel has neither a type nor a constant, or there is no such target.
        LimitError: it compiles, and the target cannot launch it.
    """
    import os

    from triton.backends.compiler import GPUTarget

    described = target_named(target)
    as_triton_has_it = GPUTarget(described.backend, described.arch, described.warp)
    source = _source(_without_tuner(kernel), described, types, constants or {}, aligned)
    log, always = io.StringIO(), os.environ.get("TRITON_ALWAYS_COMPILE")
    os.environ["TRITON_ALWAYS_COMPILE"] = "1"  # what Triton's cache has comes without a log of ptxas
    try:
        with contextlib.redirect_stdout(log):
            code, figures = compile_source(source, as_triton_has_it, options or {})
    finally:
        os.environ.pop("TRITON_ALWAYS_COMPILE")
        if always is not None:
            os.environ["TRITON_ALWAYS_COMPILE"] = always
    figures |= figures_of_log(log.getvalue()) if described.backend == "cuda" else {}
    described.hold(figures)
    return Artifact("hsaco" if described.backend == "hip" else "cubin", code, figures)


def _without_tuner(kernel: Any) -> Any:
    """Return the kernel below its autotuner and heuristics."""
    from triton.runtime.jit import JITFunction

    while not isinstance(kernel, JITFunction):
        kernel = kernel.fn
    return kernel


def _source(
    kernel: Any, target: Target, types: Mapping[str, str], constants: Mapping[str, Any], aligned: Collection[str]
) -> Any:
    """Bind the kernel to types and constants.

    Raises:
        ValueError: an argument has neither, or a name is no argument.
    """
    from triton.compiler import ASTSource

    if unknown := sorted({*types, *constants, *aligned} - {*kernel.arg_names}):
        raise ValueError(f"{kernel.__name__} has no argument {unknown[0]!r}; it has {', '.join(kernel.arg_names)}")
    if absent := [name for name in kernel.arg_names if name not in types and name not in constants]:
        raise ValueError(f"{kernel.__name__}: give {', '.join(absent)} a type or a constant")
    signature = {name: types.get(name, "constexpr") for name in kernel.arg_names}
    attributes = {}
    for number, name in enumerate(kernel.arg_names):
        if signature[name].startswith("*"):
            on_amd = [["tt.pointer_range", 32]] if target.backend == "hip" else []
            attributes[number,] = [["tt.divisibility", 16], *on_amd]
        elif name in aligned:
            attributes[number,] = [["tt.divisibility", 16]]
    return ASTSource(kernel, signature, {name: constants[name] for name in constants}, attributes)
