"""Stand in for the compilers that PyTorch's C++ extensions are built with, and record what nvcc is told."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernel_matrix.job.ahead import nvcc
from kernel_matrix.job.ahead.nvcc import UnavailableError
from kernel_matrix.job.importing import ChangingFinder

from .questions import assume, refuse

LOG = "compilers.jsonl"
_SCRIPT = '#!/bin/sh\nexec {python} -I -S {program} {log} {kind} {real} "$@"\n'
_MACROS = Path("c10", "cuda", "impl", "cuda_cmake_macros.h")
_CAPABILITY = "9.0"  # what an extension is told to build for; every target is compiled for all the same


def install(folder: Path) -> Callable[[], None]:
    """Put a stand-in for nvcc where builds look for it, and return what puts the real one back.

    The C++ compiler stays the real one but in builds of PyTorch: programs compile code for the host with it.
    """
    home = folder / "cuda"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    try:
        real = nvcc.compiler_of("cuda")
    except UnavailableError:
        real = ""
    _write_script(home / "bin" / "nvcc", folder / LOG, "nvcc", real)
    if real:
        os.environ["KERNEL_MATRIX_CUDA_HOME"] = str(Path(_root_of(real)))
        for name in ("include", "lib", "lib64", "nvvm", "targets"):
            if (origin := Path(_root_of(real), name)).exists():
                (home / name).symlink_to(origin)
    host = folder / "host" / "c++"
    host.parent.mkdir(exist_ok=True)
    _write_script(host, folder / LOG, "c++", os.environ.get("CXX", "") or shutil.which("c++") or "")
    before = {name: os.environ.get(name) for name in ("PATH", "CUDA_HOME", "CUDA_PATH", "CUDACXX")}
    os.environ["PATH"] = f"{home / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    os.environ.update(CUDA_HOME=str(home), CUDA_PATH=str(home), CUDACXX=str(home / "bin" / "nvcc"))
    os.environ.setdefault("TORCH_CUDA_ARCH_LIST", _CAPABILITY)
    os.environ.setdefault("TORCH_EXTENSIONS_DIR", str(folder / "extensions"))
    ChangingFinder().when_imported("torch.utils.cpp_extension", lambda module: _change(module, home, str(host)))

    def leave() -> None:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})

    return leave


def _root_of(compiler: str) -> str:
    """Return the folder of the toolkit that a compiler belongs to. The command may be a script that starts it."""
    path = Path(compiler).resolve()
    if (path.parents[1] / "nvvm").is_dir():
        return str(path.parents[1])
    words = path.read_text(encoding="utf-8", errors="replace").split() if path.stat().st_size < 1 << 16 else []
    named = (Path(word) for word in words if word.endswith("/bin/nvcc"))
    return str(next((one.parents[1] for one in named if one.is_file()), path.parents[1]))


def _write_script(path: Path, log: Path, kind: str, real: str) -> None:
    program = Path(__file__).with_name("compiler.py")
    words = {"python": sys.executable, "program": program, "log": log, "kind": kind, "real": real}
    text = _SCRIPT.format(**{name: shlex.quote(str(word)) for name, word in words.items()})
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def _change(module: Any, home: Path, host: str) -> None:
    """Let PyTorch build for CUDA without a GPU, also where its wheel is of the CPU and where it is told of AMD."""
    module.CUDA_HOME, module.ROCM_HOME, module.IS_HIP_EXTENSION = str(home), None, False
    module._check_cuda_version = lambda *_, **__: None
    module.check_compiler_ok_for_platform = lambda *_, **__: True
    module._import_module_from_library = _extension
    module.get_cxx_compiler = lambda: host
    build = module.BuildExtension.build_extensions

    def build_extensions(command: Any) -> None:
        command.compiler.link_shared_object = _not_linked
        build(command)

    module.BuildExtension.build_extensions = build_extensions
    if hasattr(module, "ROCM_VERSION"):
        module.ROCM_VERSION = None


def _not_linked(_: Sequence[str], output: str, *__: object, **___: object) -> None:
    """Leave an empty file in place of a library: there are no objects to link."""
    assume(f"{Path(output).name} is linked: it is an empty file")
    Path(output).parent.mkdir(parents=True, exist_ok=True)
    Path(output).write_bytes(b"")


class _Extension:
    """A module of C++ that was not built: its functions are there, and nobody knows what they return."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def unknown(*_: object, **__: object) -> Any:
            refuse(f"the C++ extension {self._name}, {name}()")

        return unknown


def _extension(name: str, _: str, is_python_module: bool, *__: object) -> Any:
    assume(
        f"the C++ extension {name} is built: its CUDA sources are recorded, and nothing of it is compiled for the host"
    )
    return _Extension(name) if is_python_module else None


def generated_headers(folder: Path) -> Path | None:
    """Return a folder with a header that PyTorch's build makes and its CPU wheel lacks; None if there is no need."""
    torch = sys.modules.get("torch")
    if torch is None or torch.__file__ is None or (Path(torch.__file__).parent / "include" / _MACROS).exists():
        return None
    path = folder / "include" / _MACROS
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#pragma once\n#define C10_CUDA_BUILD_SHARED_LIBS\n", encoding="utf-8")
    return folder / "include"
