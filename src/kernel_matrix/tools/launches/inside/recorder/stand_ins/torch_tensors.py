"""Tensors of the CPU that say they are on the GPU, so that a program goes the way that it goes with a GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode

from .questions import assume

_COMPARISONS = ("allclose", "equal", "isclose")
_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm")
_UNFILLED = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")


class OnGpu(TorchFunctionMode):
    """Answer as if tensors were on a GPU, and do on the CPU what is to be done there.

    ``computed`` is whether kernels compute what they are to compute; without the interpreter none does. Then
    comparisons hold, since they would be of numbers that nobody has computed. Each is counted. New tensors do not hold
    what the memory held before, which is another thing in each run of the program.
    """

    def __init__(self, *, computed: bool) -> None:
        super().__init__()
        self.computed = computed

    def __torch_function__(
        self, function: Callable[..., Any], _: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Do one function of PyTorch."""
        if function is torch.device:  # a device keeps its name; what is done on it is another question
            return function(*args, **(kwargs or {}))
        name = getattr(function, "__name__", "")
        if name == "__get__":
            return _attribute(function, args)
        if name in ("cuda", "pin_memory", "get_device", "record_stream", "is_pinned"):
            return {"get_device": 0, "record_stream": None, "is_pinned": False}.get(name, args[0])
        if not self.computed and name in _COMPARISONS:
            assume(f"torch.{name} holds, since no kernel has computed anything")
            return torch.ones_like(args[0], dtype=torch.bool) if name == "isclose" else True
        options = {key: _of_cpu(value, is_device=key == "device") for key, value in (kwargs or {}).items()}
        values = [_of_cpu(value, is_device=name == "to" and index == 1) for index, value in enumerate(args)]
        dtype = options.pop("out_dtype", None) if name in _PRODUCTS else None  # PyTorch has this on GPUs only
        result = function(*values, **options)
        if dtype is not None:
            return result.to(dtype)
        if name in _UNFILLED and "out" not in options and result.device.type == "cpu":
            _fill(result.detach(), computed=self.computed)
        return result


def _fill(new: torch.Tensor, *, computed: bool) -> None:
    """Fill a new tensor with zeros, or with what no right kernel stores: each element that one stores has changed then.

    It is what PyTorch itself fills in where it is to be deterministic. What it cannot fill stays as it is.
    """
    if not computed:
        new.zero_()
        return
    with contextlib.suppress(RuntimeError, TypeError):  # sparse tensors, quantized ones, and those of four bits
        if new.is_floating_point() or new.is_complex():
            new.fill_(float("nan"))
        else:
            new.fill_(True if new.dtype is torch.bool else torch.iinfo(new.dtype).max)


def _attribute(function: Any, args: Sequence[Any]) -> Any:
    """Return an attribute of a tensor; where it speaks of the CPU it speaks of the GPU instead."""
    value = function(*args)
    name = getattr(getattr(function, "__self__", None), "__name__", "")
    if name == "device" and value.type == "cpu":
        return torch.device("cuda", 0)
    if name == "is_cuda":
        return value or args[0].is_cpu  # inside of this mode the tensor tells the truth
    return False if name == "is_cpu" else value


def _of_cpu(value: Any, *, is_device: bool) -> Any:
    """Return the CPU in place of a GPU."""
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return "cpu"
    return "cpu" if is_device and type(value) is int else value


def install(*, computed: bool) -> OnGpu:
    """Make all tensors say that they are on the GPU, and return the mode that makes them."""
    if not computed:

        def holds(*_: object, **__: object) -> None:
            assume("torch.testing.assert_close holds, since no kernel has computed anything")

        torch.testing.assert_close = holds
    set_default = torch.set_default_device

    def set_default_device(device: Any) -> None:  # PyTorch asks its own mode after all others
        set_default(_of_cpu(torch.device(device) if device is not None else None, is_device=True))

    torch.set_default_device = set_default_device
    mode = OnGpu(computed=computed)
    mode.__enter__()
    _install_in_backward(mode)
    return mode


def _install_in_backward(mode: OnGpu) -> None:
    """Keep the mode for the functions that a backward pass calls.

    PyTorch leaves a mode while the mode does a function. ``backward`` is such a function, and it calls Python again:
    the backward functions of the program, which ask their tensors where they are.
    """
    run = torch.autograd.graph._engine_run_backward

    def run_backward(*args: Any, **kwargs: Any) -> Any:
        with contextlib.nullcontext() if _get_current_function_mode() is mode else mode:
            return run(*args, **kwargs)

    torch.autograd.graph._engine_run_backward = torch.autograd._engine_run_backward = run_backward
