"""Read BackendBench's form: a folder ``NAME__OVERLOAD`` whose function answers for one of PyTorch's operators."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any
from unittest import TestCase

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernel_matrix.tools.verify.inside.candidate import seeded
from kernel_matrix.tools.verify.tasks.calls import VALUES, Calls, Drawn, Step
from kernel_matrix.tools.verify.tasks.task import UndecidedError, UnusableError

_MOST, _FEW = 12, 3  # calls that are taken; those with other values too
_ELEMENTS = 1 << 20


def implementation(folder: Path) -> Path | None:
    """Return the newest implementation of a folder of this form, or nothing."""
    found = sorted(folder.glob(f"{folder.resolve().name}_implementation_v*.py"))
    return found[-1] if "__" in folder.resolve().name and found else None


class BackendBench(Calls):
    """An operator of PyTorch; its inputs are those of PyTorch's own tests."""

    form = "BackendBench"

    def __init__(self, folder: Path) -> None:
        """Read the operator's name.

        Raises:
            UnusableError: PyTorch has none of that name.
        """
        self._name, _, overload = folder.resolve().name.partition("__")
        super().__init__(f"{folder.resolve().name}_kernel_impl", {}, folder.resolve().name)
        try:
            self._operator = getattr(getattr(torch.ops.aten, self._name), overload)
        except AttributeError as error:
            raise UnusableError(f"PyTorch has no operator {self._name}.{overload}") from error

    def right(self, *arguments: Any, **words: Any) -> Any:
        """Return what PyTorch's operator gives."""
        return self._operator(*arguments, **words)

    def steps(self) -> tuple[list[Step], list[str]]:
        """Return the calls of the operator in PyTorch's own tests, and the first ones with other values.

        Raises:
            UndecidedError: there is none.
        """
        calls = self._calls(self.seed())
        if not calls:
            raise UndecidedError(f"PyTorch's tests have no call of {self._operator} with tensors")
        several = sorted(range(len(calls)), key=lambda place: -_size(calls[place]))
        chosen = [*several[:_FEW], *several[_FEW :: max(1, len(several) // _MOST)]][:_MOST]

        def drawing(place: int) -> Any:
            return lambda seed: self._calls(seed)[place]

        steps = [Step(name, drawing(chosen[0]), kind) for name, kind in VALUES]
        steps += [Step(f"call {place + 1} of PyTorch's tests", drawing(place)) for place in chosen[1:]]
        return steps, [f"{len(calls) - len(chosen)} more calls of PyTorch's tests"] if len(calls) > len(chosen) else []

    def _calls(self, seed: int) -> list[Drawn]:
        """Return the operator's calls in the samples of PyTorch's tests, which the seed determines."""
        seeded(seed)
        recorder, name = _Recorder(self._operator), self._name.strip("_")
        for info in [one for one in _samples() if name in (one.name, one.aten_name, *map(str, one.aliases))]:
            if torch.float32 in info.supported_dtypes("cpu"):
                for sample in info.sample_inputs("cpu", torch.float32, requires_grad=False):
                    with recorder, torch.no_grad():
                        info.op(sample.input, *sample.args, **sample.kwargs)
        return recorder.calls


def _samples() -> list[Any]:
    """Return the operators of PyTorch's own tests.

    Raises:
        UnusableError: this PyTorch has none.
    """
    # They import a distribution of which the inputs need nothing.
    sys.modules.setdefault("expecttest", types.ModuleType("expecttest")).__dict__.setdefault("TestCase", TestCase)
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        raise UnusableError(f"the inputs of PyTorch's own tests cannot be loaded: {error}") from error
    return list(op_db)


class _Recorder(TorchDispatchMode):  # type: ignore[misc]  # PyTorch has no types here
    """Keep the arguments of each call of one operator."""

    def __init__(self, operator: Any) -> None:
        super().__init__()
        self._operator, self.calls = operator, list[Drawn]()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the operator, and keep what it was given."""
        given, words = [_copied(one) for one in args], {name: _copied(one) for name, one in (kwargs or {}).items()}
        result = function(*args, **(kwargs or {}))
        if function == self._operator and 0 < _size((given, words)) < _ELEMENTS:
            self.calls.append((given, words))
        return result


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    return type(value)(map(_copied, value)) if isinstance(value, (list, tuple)) else value


def _size(call: Drawn) -> int:
    return sum(one.numel() for one in (*call[0], *call[1].values()) if isinstance(one, torch.Tensor))
