"""Tensors of PyTorch, which is imported by the suite and never here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import numpy as np

from kernel_matrix.job.suite_canaries.faults import Wide


def is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor, of a class that only adds methods to it."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return False
    return bool(type(value).__torch_dispatch__ == torch.Tensor.__torch_dispatch__)


def part(value: Any, lead: tuple[int, ...] | None, rows: Any, columns: int) -> Any:
    """Return a tensor of the CPU with some of its rows, and so many of their first columns; all without ``lead``.

    Only what is taken is copied from the device. Nothing is asked where operators are counted or replaced.

    Raises:
        TypeError: operators of this thread are replaced.
    """
    torch = sys.modules["torch"]
    if torch._C._len_torch_dispatch_stack():
        raise TypeError("a mode that takes operators")
    with torch.no_grad():
        tensor = value.detach().as_subclass(torch.Tensor)
        if lead is not None:
            tensor = tensor[tuple(index.tolist() for index in np.unravel_index(rows, lead))][:, :columns]
        return tensor.to("cpu", copy=True)


def wide(value: Any) -> Wide:
    """Return a tensor of the CPU as float64."""
    array: Wide = value.to(sys.modules["torch"].float64).numpy()
    return array


def native(values: Wide, like: Any) -> Any:
    """Return numbers as a tensor of the dtype that another one has."""
    return sys.modules["torch"].from_numpy(np.ascontiguousarray(values)).to(like.dtype)


def dtype_of(value: Any) -> str:
    """Return the name of a tensor's dtype."""
    return str(value.dtype).rpartition(".")[2]


def prepared(watched: Any, name: str) -> Callable[[], bool]:
    """Leave compilers as they are, and return how code learns that one traces it, or follows what it calls."""
    torch = sys.modules["torch"]
    builtins, frames = sys.modules.get("torch.jit._builtins"), getattr(torch._C, "_dynamo", None)
    if builtins is not None and hasattr(builtins, "_get_builtin_table"):  # scripts call the operator itself
        builtins._get_builtin_table()[id(watched)] = f"aten::{name}"
    frames = getattr(frames, "eval_frame", None)
    _leave_out(frames, watched.__code__)
    traces = getattr(getattr(torch, "compiler", None), "is_compiling", None) or (lambda: False)
    follows = getattr(frames, "get_eval_frame_callback", None) or (lambda: None)
    return lambda: traces() or follows() is not None


def _leave_out(frames: Any, code: CodeType) -> None:
    """Tell the compiler that takes frames to leave a code alone where it is called; versions say this differently."""
    if hasattr(frames, "skip_code"):
        frames.skip_code(code)
    elif hasattr(frames, "set_code_exec_strategy"):
        action = frames._FrameAction
        frames.set_code_exec_strategy(code, frames._FrameExecStrategy(action.SKIP, action.DEFAULT))
