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


def part(value: Any, index: Any = ...) -> Any:
    """Return a copy of a part of a tensor on the CPU, all without an index. Only what is taken leaves the device."""
    return _plain(value)[index].to("cpu", copy=True)


def place(value: Any) -> Any:
    """Return what two tensors have in common that are the same elements in the same order; nothing without memory."""
    tensor = _plain(value)
    strides = [
        (size, stride * tensor.element_size()) for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    ]
    return tensor.data_ptr() and (
        tensor.data_ptr(),
        tensor.element_size(),
        tensor.numel(),
        tensor.is_contiguous() or strides,
    )


def spread(value: Any, shape: tuple[int, ...]) -> Any:
    """Return a tensor as one that has another shape, where each of its elements stands for several."""
    return _plain(value).expand(shape)


def flat(value: Any, shape: tuple[int, ...]) -> Any:
    """Return a tensor of a shape as one row of its elements."""
    return spread(value, shape).reshape(-1)


def taken(row: Any, places: list[int]) -> Any:
    """Return some elements of a row, on the CPU."""
    return row[places].to("cpu", copy=True)


def sizes(row: Any) -> Any:
    """Return the magnitude of each element of a row."""
    return (row if row.dtype.itemsize > 2 and (row.is_floating_point() or row.is_complex()) else row.double()).abs()


def wide(value: Any) -> Wide:
    """Return a tensor as float64, or as complex numbers of it."""
    torch = sys.modules["torch"]
    dtype = torch.complex128 if value.is_complex() else torch.float64
    array: Wide = value.to("cpu", dtype).resolve_conj().resolve_neg().numpy()
    return array


def native(values: Wide, like: Any) -> Any:
    """Return numbers as a tensor of the dtype and the shape that another one has."""
    return sys.modules["torch"].from_numpy(np.ascontiguousarray(values)).reshape(like.shape).to(like.dtype)


def _plain(value: Any) -> Any:
    """Return a tensor without its subclass, and without a gradient. Nothing is asked where operators are replaced.

    Raises:
        TypeError: operators of this thread are counted or replaced.
    """
    torch = sys.modules["torch"]
    if torch._C._len_torch_dispatch_stack():
        raise TypeError("a mode that takes operators")
    return value.detach().as_subclass(torch.Tensor)


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
