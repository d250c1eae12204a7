"""Compile one program of TileLang for one target: TileLang's source, then the machine code of nvcc or hipcc."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from . import nvcc
from .elf import code_bytes
from .figures import figures_of_clang
from .pool import UnavailableError
from .programs import Program, target_of
from .settings import Target

_FLAGS = "tl.device_compile_flags"
_SHARED = re.compile(r"(\d+) bytes smem")


class Source:
    """The input of TileLang for a program and one target."""

    def __init__(self, program: Program, target: Target) -> None:
        """Take a program, and make TVM's target."""
        self.program, self.for_target = program, target
        self.target = target_of(target)

    @property
    def key(self) -> str:
        """Return a text that is the same where the same compilers are given the same."""
        import tilelang

        try:
            compiler = nvcc.identity_of(nvcc.compiler_of(self.for_target.backend))
        except UnavailableError:
            compiler = "no compiler"
        options = sorted((name, str(value)) for name, value in self.program.options.items())
        return f"tilelang {tilelang.__version__} {self.program.script} {options} {self.target} {compiler}"

    def compile(self, report: Callable[[str], None]) -> dict[str, Any]:
        """Compile. Without a hipcc the result for AMD is source, as TileLang wrote it."""
        lowered, configuration = _lowered(self.program, self.target)
        source, figures = lowered.kernel_source, dict(_of_launch(lowered.device_mod))
        if self.for_target.backend == "hip":
            return self._for_amd(source, figures, report)
        report("cubin")
        code, log = _cubin(source, self.target, configuration)
        static = [int(size) for size in _SHARED.findall(log)]
        shared = figures.get("shared", 0) + max(static, default=0)
        return {"figures": {**figures, "shared": shared, "bytes": len(code), "code_bytes": code_bytes(code)}}

    def _for_amd(self, source: str, figures: dict[str, float], report: Callable[[str], None]) -> dict[str, Any]:
        try:
            compiler = nvcc.compiler_of("hip")
        except UnavailableError as error:
            print(f"the result is source: {error}", flush=True)  # noqa: T201  into the log of this process
            return {"artifact": "hip-source", "figures": {**figures, "bytes": len(source.encode())}}
        report("hsaco")
        code, log = _compiled_source(source, ".hip", [compiler, *_hip_flags(self.for_target.name)])
        found = figures_of_clang(log)
        shared = figures.get("shared", 0) + found.pop("shared", 0)
        return {"figures": {**figures, **found, "shared": shared, "bytes": len(code), "code_bytes": code_bytes(code)}}


def source_text(program: Program, target: Target) -> str:
    """Return the source that TileLang generates for a target."""
    return str(_lowered(program, target_of(target))[0].kernel_source)


def _lowered(program: Program, target: Any) -> tuple[Any, dict[str, Any]]:
    """Return TileLang's source for a target, and the configuration of its passes."""
    import tilelang
    from tilelang import tvm

    configuration = dict(program.options["pass_configs"])
    flags = program.options["compile_flags"] or []
    if flags:
        given = configuration.get(_FLAGS) or []
        configuration[_FLAGS] = [*_listed(given), *_listed(flags)]
    with tvm.transform.PassContext(opt_level=3, config=configuration), target:
        return tilelang.lower(program.function, target=target), configuration


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
