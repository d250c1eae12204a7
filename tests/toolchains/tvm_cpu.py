"""Print what the threads of TVM's CPU kernels do: a program for TVM's environment, whose answer is one line of JSON."""

from __future__ import annotations

import ctypes
import inspect
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import torch
import tvm
import tvm_ffi
from tvm.script import tirx as T
from tvm.script.parser.core.parser import ScriptMacro

from mhc.backends import load
from mhc.backends.tvm import openmp
from mhc.ops.expand import ExpandInputs, ExpandOutputs
from mhc.ops.sinkhorn import SinkhornSpec

OF_TVM = ScriptMacro._find_parser_def  # before the backend replaces it

BODY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)


def threads_of_process() -> int:
    """Return the number of threads that the system counts."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Threads:"))


def launched(status_of_task: int, tasks: int = 3) -> tuple[int, list[tuple[int, int, int]]]:
    """Launch a loop whose last task returns a status; return the loop's own, and what each task was given."""
    given: list[tuple[int, int, int]] = []

    @BODY
    def body(number: int, environment: int, captured: int) -> int:
        given.append((number, ctypes.c_int.from_address(environment + 8).value, captured))
        return status_of_task if number == tasks - 1 else 0

    status = LAUNCH(openmp.launcher())(ctypes.cast(body, ctypes.c_void_p), 77, tasks)
    return status, sorted(given)


def expanded(x: torch.Tensor) -> bool:
    """Run a kernel and return whether its output is right."""
    out = torch.full((len(x), 4, x.shape[1]), float("nan"))
    load("tvm", "expand", "forward").run(ExpandInputs(x, 4), ExpandOutputs(out))
    return bool((out == x.unsqueeze(1)).all())


def script_with_macros(search: Callable[[ScriptMacro], object]) -> tuple[tvm.tirx.PrimFunc, int]:
    """Return a script, and how often ``inspect`` was asked for the stack while its macros searched their parser."""
    asked: list[int] = []
    find, frames = ScriptMacro._find_parser_def, inspect.getouterframes
    kernel = load("tvm", "sinkhorn", "backward")
    ScriptMacro._find_parser_def = search
    inspect.getouterframes = lambda *arguments: asked.append(1) or frames(*arguments)
    try:
        script = kernel._cpu._script(SinkhornSpec(3, 7, 1e-6, "paper"), tvm.target.Target("llvm"))
    finally:
        ScriptMacro._find_parser_def, inspect.getouterframes = find, frames
    return script, len(asked)


@T.prim_func
def of_others(x: T.Buffer((4096,), "float32")):
    """Do what a kernel of another package does."""
    T.func_attr({"global_symbol": "of_others", "tirx.noalias": True})
    for i in T.parallel(4096):
        x[i] = T.float32(i)


torch.set_num_threads(3)
torch.ones(1 << 20).add(1.0)  # PyTorch's threads are there from here on
before = threads_of_process()
answer = {"right": expanded(torch.randn(50, 40)), "started": threads_of_process() - before}
answer["good"], answer["bad"] = launched(0), launched(-1)

before = threads_of_process()  # no thread ends here: the threads of Python, whose OpenMP threads do, come later
other = tvm.compile(tvm.IRModule({"of_others": of_others}), target=tvm.target.Target("llvm"))["of_others"]
y = torch.empty(4096)
other(y)
answer["others"] = bool((y == torch.arange(4096.0)).all()), threads_of_process() > before

x = torch.randn(50, 40)
results: list[bool] = []
beside = [threading.Thread(target=lambda: results.append(expanded(x))) for _ in range(4)]
for thread in beside:
    thread.start()
for thread in beside:
    thread.join()
answer["beside"] = results

theirs, asked = script_with_macros(OF_TVM)
ours, asked_by_ours = script_with_macros(ScriptMacro._find_parser_def)
answer["macros"] = tvm_ffi.structural_equal(theirs, ours), asked > asked_by_ours

if "without" in sys.argv:  # as where PyTorch was built without OpenMP
    openmp.launcher = lambda: None  # type: ignore[assignment]
    answer["without"] = expanded(torch.randn(7, 33))
print(json.dumps(answer))
