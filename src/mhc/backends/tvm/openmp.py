"""Run the parallel loops of TVM's CPU kernels on the OpenMP threads that PyTorch has.

TVM has a pool of threads of its own. Behind an operation of PyTorch, the threads of OpenMP still wait and use the cores
that TVM's threads then need; behind a kernel of TVM it is the other way round. With one pool for both, the threads that
wait are those that work next. TVM's code calls a pointer for each parallel loop. Its runtime sets this pointer when it
loads a module, to what is registered at that time.
"""

from __future__ import annotations

import ctypes
import functools
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi

_SYMBOL = b"__TVMBackendParallelLaunch"
_LOCK = threading.Lock()

# The functions of OpenMP's runtime, with the names that GNU's, LLVM's and Intel's have.
_OPENMP = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")

# A body returns a status, and takes its number, the barrier and the number of the tasks, and what the loop reads. An
# error that a body raises belongs to its thread. So an error of another thread than the caller's is raised anew.
_CODE = r"""
%environment = type {{ ptr, i32 }}
%loop = type {{ ptr, ptr, i32, i32 }}

@kind = private constant [13 x i8] c"RuntimeError\00"
@message = private constant [35 x i8] c"a thread of a parallel loop failed\00"

define internal void @task(ptr %loop) {{
  %environment = alloca %environment
  %body = load ptr, ptr %loop
  %captured.place = getelementptr %loop, ptr %loop, i32 0, i32 1
  %captured = load ptr, ptr %captured.place
  %number = call i32 inttoptr (i64 {omp_get_thread_num} to ptr)()
  %tasks = call i32 inttoptr (i64 {omp_get_num_threads} to ptr)()
  store ptr null, ptr %environment
  %tasks.place = getelementptr %environment, ptr %environment, i32 0, i32 1
  store i32 %tasks, ptr %tasks.place
  %status = call i32 %body(i32 %number, ptr %environment, ptr %captured)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %end, label %bad
bad:
  %is.other = icmp ne i32 %number, 0
  %which = select i1 %is.other, i32 3, i32 2
  %status.place = getelementptr i32, ptr %captured.place, i32 %which
  store atomic i32 %status, ptr %status.place monotonic, align 4
  br label %end
end:
  ret void
}}

define internal i32 @launch(ptr %body, ptr %captured, i32 %tasks) {{
  %loop = alloca %loop
  store ptr %body, ptr %loop
  %captured.place = getelementptr %loop, ptr %loop, i32 0, i32 1
  store ptr %captured, ptr %captured.place
  %own.place = getelementptr %loop, ptr %loop, i32 0, i32 2
  store i32 0, ptr %own.place
  %other.place = getelementptr %loop, ptr %loop, i32 0, i32 3
  store i32 0, ptr %other.place
  call void inttoptr (i64 {GOMP_parallel} to ptr)(ptr @task, ptr %loop, i32 %tasks, i32 0)
  %own = load i32, ptr %own.place
  %own.good = icmp eq i32 %own, 0
  br i1 %own.good, label %others, label %own.bad
own.bad:
  ret i32 %own
others:
  %other = load i32, ptr %other.place
  %other.good = icmp eq i32 %other, 0
  br i1 %other.good, label %end, label %other.bad
other.bad:
  call void inttoptr (i64 {TVMFFIErrorSetRaisedFromCStr} to ptr)(ptr @kind, ptr @message)
  br label %end
end:
  ret i32 %other
}}

define i32 @__tvm_ffi_address(ptr %self, ptr %arguments, i32 %count, ptr %result) {{
  store i32 1, ptr %result
  %number = getelementptr i64, ptr %result, i32 1
  store i64 ptrtoint (ptr @launch to i64), ptr %number
  ret i32 0
}}
"""


@contextmanager
def launched_by_openmp() -> Iterator[None]:
    """Give the modules that are loaded meanwhile OpenMP's threads; TVM's own where no OpenMP is in this process.

    Afterwards the modules of others get TVM's threads again.
    """
    with _LOCK:
        ours = launcher()
        if ours is None:
            yield
            return
        register = _ffi().TVMFFIEnvModRegisterContextSymbol
        register(_SYMBOL, ctypes.c_void_p(ours))
        try:
            yield
        finally:
            register(_SYMBOL, ctypes.cast(ctypes.CDLL(_runtime()).TVMBackendParallelLaunch, ctypes.c_void_p))


@functools.cache
def launcher() -> int | None:
    """Return the address of the function that runs a loop on OpenMP's threads; None where there is no OpenMP."""
    process = ctypes.CDLL(None)  # PyTorch loads its OpenMP so that the whole process sees it
    try:
        functions = {name: _address(process, name) for name in _OPENMP}
    except AttributeError:
        return None
    functions["TVMFFIErrorSetRaisedFromCStr"] = _address(_ffi(), "TVMFFIErrorSetRaisedFromCStr")
    return int(_module(**functions)["address"]())


@functools.cache
def _module(**functions: int) -> Any:
    """Return the compiled launcher. It stays in memory as long as the process: kernels call it."""
    with tempfile.TemporaryDirectory(prefix="mhc-") as folder:
        path = Path(folder, "launch.ll")
        empty = tvm.get_global_func("codegen.LLVMModuleCreate")("llvm", "launch")  # for this machine
        path.write_text(empty.inspect_source("ll") + _CODE.format(**functions), encoding="utf-8")
        return tvm.runtime.load_module(os.fspath(path))


def _address(library: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


def _ffi() -> ctypes.CDLL:
    return ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi())


def _runtime() -> str:
    """Return the file of TVM's runtime, which is loaded."""
    return os.fspath(next(Path(tvm.__file__).parent.glob("lib/libtvm_runtime.*")))
