"""The kernels of the reference: equations that run eagerly, each with its golden."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

Equations = Callable[..., tuple[torch.Tensor | None, ...]]


class Kernel:
    """``equations`` takes the fields of the inputs, and returns the outputs."""

    def __init__(self, equations: Equations) -> None:
        self.equations = equations

    def run(self, inputs: tuple[Any, ...], out: tuple[torch.Tensor | None, ...], target: str | None = None) -> None:
        """Run eagerly on the device of the inputs; ``target`` changes nothing here."""
        with full_precision(inputs[0].device):
            write(self.equations(*inputs), out)

    def supports(self, spec: Any, target: str | None, tokens: int | None = None) -> str | None:
        """Return None: eager PyTorch computes any number of streams on any device."""
        return None

    def golden(self, inputs: tuple[Any, ...]) -> tuple[torch.Tensor | None, ...]:
        """Return what every result is compared with: the same equations in float64 throughout."""
        return self.equations(*widen(inputs))


class GradientKernel(Kernel):
    """Gradients that are written out; their golden is autograd through the forward's equations instead."""

    def __init__(self, equations: Equations, forward: Equations, grads: type[Any]) -> None:
        super().__init__(equations)
        self._forward = forward
        self._arguments = inspect.signature(forward).parameters
        self._grads = grads

    def golden(self, inputs: tuple[Any, ...]) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients that are asked for by autograd, in float64, from the forward's inputs alone."""
        values = widen(inputs)._asdict()
        grads = [value for name, value in values.items() if name.startswith("grad_")]
        forward = {name: values[name] for name in self._arguments}
        by_name = dict(zip(forward, gradients(self._forward, list(forward.values()), grads), strict=True))
        needs = values.get("needs", (True,) * len(self._grads._fields))
        return self._grads(
            *(by_name[name] if needed else None for name, needed in zip(self._grads._fields, needs, strict=True))
        )


class _IeeeProducts:
    """Have PyTorch compute products of fp32 matrices in fp32, whatever its settings say, as long as anybody asks.

    The settings belong to the process, so the first that comes changes them and the last that goes sets them back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._changed: tuple[str | None, str, str] | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            precisions = torch.backends.cuda.matmul.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision
            if not all(precision in ("ieee", "none") for precision in precisions):
                try:
                    level = torch.get_float32_matmul_precision()
                except RuntimeError:  # it refuses where the settings were made one by one, through fp32_precision
                    level = None
                self._changed = (level, *precisions)
                self._set("highest" if level else None, "ieee", "ieee")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._changed:
                changed, self._changed = self._changed, None
                self._set(*changed)

    @staticmethod
    def _set(level: str | None, cuda: str, mkldnn: str) -> None:
        if level:
            torch.set_float32_matmul_precision(level)
        torch.backends.cuda.matmul.fp32_precision = cuda
        torch.backends.mkldnn.matmul.fp32_precision = mkldnn


_ieee_products = _IeeeProducts()


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Switch off what would narrow the products of the equations: autocast, and TF32 or bf16 products."""
    with _ieee_products:
        if torch.is_autocast_enabled(device.type):
            with torch.autocast(device.type, enabled=False):
                yield
        else:
            yield


def widen(inputs: Any) -> Any:
    """Return the same inputs in float64."""
    return type(inputs)(*(value.double() if isinstance(value, torch.Tensor) else value for value in inputs))


def gradients(
    equations: Equations, inputs: Sequence[Any], grads: Sequence[torch.Tensor]
) -> tuple[torch.Tensor | None, ...]:
    """Return the gradients of the tensors among ``inputs`` by autograd, and None for each other input.

    ``grads`` are the gradients of the equations' first outputs, in the order and dtypes of these.
    """
    leaves = [value.detach().requires_grad_() if isinstance(value, torch.Tensor) else value for value in inputs]
    tensors = [value for value in leaves if isinstance(value, torch.Tensor)]
    outputs = equations(*leaves)[: len(grads)]
    results = iter(torch.autograd.grad(outputs, tensors, list(grads)))
    return tuple(next(results) if isinstance(value, torch.Tensor) else None for value in leaves)


def write(results: Sequence[torch.Tensor | None], out: tuple[torch.Tensor | None, ...]) -> None:
    """Copy the results into the tensors of ``out``."""
    for result, tensor in zip(results, out, strict=True):
        if tensor is not None:
            tensor.copy_(result)
