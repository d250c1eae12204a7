"""Compile one program of TileLang for one target: TileLang's source, then the machine code of nvcc or hipcc."""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from . import nvcc
from .artifact import Artifact
from .figures import code_bytes, figures_of_clang, figures_of_log
from .nvcc import UnavailableError
from .targets import target_named

_FLAGS = "tl.device_compile_flags"
_SHARED = re.compile(r"(\d+) bytes smem")


def compile_program(
    program: Any,
    target: str,
    *,
    pass_configs: Mapping[str, Any] | None = None,
    compile_flags: str | Sequence[str] = (),
) -> Artifact:
    """Compile a program; its arguments are explained at :func:`kernel_matrix.job.ahead.of_tilelang`.

    Raises:
        ValueError: there is no such target.
        LimitError: it compiles, and the target cannot launch it.
        UnavailableError: nvcc is not on this machine.
    """
    described = target_named(target)
    capability = described.capability if described.backend == "cuda" else (0, 0)
    log = io.StringIO()
    with contextlib.redirect_stdout(log):
        kind, code, figures = compile_for(
            program,
            target_of(described.backend, target, capability),
            (described.backend, target),
            (pass_configs or {}, compile_flags),
            lambda _: None,
        )
    figures |= figures_of_log(log.getvalue()) if described.backend == "cuda" else {}
    described.hold(figures)
    return Artifact(kind, code, figures)


def target_of(backend: str, name: str, capability: tuple[int, int]) -> Any:
    """Return a target as TileLang names the device: with the letter ``a``, for the instructions of one generation."""
    from tilelang.contrib.nvcc import get_target_arch
    from tvm.target import Target as TvmTarget

    if backend == "hip":
        return TvmTarget({"kind": "hip", "mcpu": name})
    return TvmTarget({"kind": "cuda", "arch": f"sm_{get_target_arch(capability)}"})


def compile_for(
    function: Any,
    target: Any,
    place: tuple[str, str],
    options: tuple[Mapping[str, Any], str | Sequence[str]],
    report: Callable[[str], None],
) -> tuple[str, bytes, dict[str, float]]:
    """Compile, and return the kind of the code, the code and its figures.

    ``place`` is the backend and the name of the target, ``options`` the configuration of passes and the flags. The log
    of the compiler is printed. Without a hipcc the result for AMD is source, as TileLang wrote it.
    """
    made, configuration = lowered(function, target, *options)
    source, figures = made.kernel_source, dict(_of_launch(made.device_mod))
    if place[0] == "hip":
        return _for_amd(source, figures, place[1], report)
    report("cubin")
    code, log = _cubin(source, target, configuration)
    static = [int(size) for size in _SHARED.findall(log)]
    figures["shared"] = figures.get("shared", 0) + max(static, default=0)
    return "cubin", code, {**figures, "bytes": len(code), "code_bytes": code_bytes(code)}


def _for_amd(
    source: str, figures: dict[str, float], name: str, report: Callable[[str], None]
) -> tuple[str, bytes, dict[str, float]]:
    try:
        compiler = nvcc.compiler_of("hip")
    except UnavailableError as error:
        print(f"the result is source: {error}", flush=True)  # noqa: T201  into the log of this process
        return "hip-source", source.encode(), {**figures, "bytes": len(source.encode())}
    report("hsaco")
    code, log = _compiled_source(source, ".hip", [compiler, *_hip_flags(name)])
    needs = figures_of_clang(log)
    figures["shared"] = figures.get("shared", 0) + needs.pop("shared", 0)
    return "hsaco", code, {**figures, **needs, "bytes": len(code), "code_bytes": code_bytes(code)}


def lowered(
    function: Any, target: Any, pass_configs: Mapping[str, Any], compile_flags: str | Sequence[str]
) -> tuple[Any, dict[str, Any]]:
    """Return TileLang's source for a target, and the configuration of its passes."""
    import tilelang
    from tilelang import tvm

    configuration = dict(pass_configs)
    if compile_flags:
        given = configuration.get(_FLAGS) or []
        configuration[_FLAGS] = [*_listed(given), *_listed(compile_flags)]
    with tvm.transform.PassContext(opt_level=3, config=configuration), target:
        return tilelang.lower(function, target=target), configuration


def _listed(flags: str | Sequence[str]) -> list[str]:
    return [flags] if isinstance(flags, str) else list(flags)


def _of_launch(module: Any) -> Iterator[tuple[str, float]]:
    """Yield the threads of a block and the dynamic shared memory of the kernels, the most that one has."""
    threads, shared = 0, 0
    for function in module.functions.values():
        attributes = dict((function.attrs or {}).items())
        extents = dict(attributes.get("thread_extent", {}))
        of_block = [int(extent) for axis, extent in extents.items() if str(axis).startswith("threadIdx")]
        threads = max(threads, math.prod(of_block) if extents else 0)
        shared = max(shared, int(attributes.get("dyn_shared_memory_buf", 0)))
    yield "threads", threads
    yield "shared", shared


def _cubin(source: str, target: Any, configuration: dict[str, Any]) -> tuple[bytes, str]:
    """Return the machine code that TileLang's own call of nvcc makes, and the log of ptxas."""
    from tilelang import tvm
    from tilelang.contrib import nvcc as of_tilelang

    logs = []

    def compile_cuda(
        code: str, target_format: str = "cubin", arch: Sequence[str] = (), options: Sequence[str] = (), **_: object
    ) -> bytearray:
        compiler = nvcc.compiler_of("cuda")
        flags = [f"--{target_format}", "-O3", "-lineinfo", *_listed(arch), *_listed(options), "-Xptxas", "--verbose"]
        data, log = _compiled_source(code, ".cu", [compiler, *flags])
        logs.append(log)
        return bytearray(data)

    of_tilelang.compile_cuda = compile_cuda
    _without_cache()
    callback = tvm.ffi.get_global_func("tilelang_callback_cuda_compile")
    return bytes(callback(source, target, configuration)), "\n".join(logs)


def _without_cache() -> None:
    """Make TileLang compile anew: its own cache keeps no log of ptxas."""
    try:
        from tilelang.cache.cuda_binary_cache import CUDABinaryCache
    except ImportError:  # before 0.1.12
        return
    CUDABinaryCache.load = staticmethod(lambda *_, **__: None)
    CUDABinaryCache.save = staticmethod(lambda *_, **__: None)


def _hip_flags(name: str) -> list[str]:
    from tilelang.env import TILELANG_TEMPLATE_PATH

    resources = "-Rpass-analysis=kernel-resource-usage"
    return ["--genco", f"--offload-arch={name}", "-O3", "-std=c++17", f"-I{TILELANG_TEMPLATE_PATH}", resources]


def _compiled_source(source: str, suffix: str, command: Sequence[str]) -> tuple[bytes, str]:
    with TemporaryDirectory(prefix="program-") as folder:
        path, into = Path(folder, f"kernel{suffix}"), Path(folder, "kernel.out")
        path.write_text(source, encoding="utf-8")
        log = nvcc.run_compiler([*command, "-o", str(into), str(path)])
        return into.read_bytes(), log
