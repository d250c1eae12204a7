"""A whole layer as a subject: read, an F that does nothing, write, and the way back through all of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import golden
import published
import rivals
import torch

from draws import Draw, bytes_of, nudged
from kernel_matrix.tools.bench.inside.protocol import AbsentError, Distance, Run, Yardstick
from mhc.backends import names
from mhc.backends.reference import mhc_post as write
from mhc.backends.reference import mhc_pre, sinkhorn
from mhc.backends.reference.kernel import full_precision, gradients, widen
from mhc.functional import mhc_post, read_with_x
from mhc.ops.mhc_pre import MhcPreInputs

_NUDGES = 2
_ITERATIONS = 20
_NAMES = ("x", "phi", "alpha", "bias", "gamma")


class LayerSubject:
    """Forward and backward of one layer.

    The floor is the sum over its four parts, each input read once and each output written once, and the gradient of x
    that comes from the write, which the way back through the read has to read.
    """

    op, direction = "layer", "step"

    def __init__(self, axes: Mapping[str, Any], device: torch.device) -> None:
        self.axes, self.device = axes, device
        self._copies: dict[int, tuple[torch.Tensor, MhcPreInputs, torch.Tensor]] = {}
        x, inputs, grad = self.tensors(0)
        h_in = x.numel() // int(axes["streams"]) * x.element_size()
        small = 4 * bytes_of(inputs[1:])
        self.x_bytes = bytes_of([x])
        # read: x, h_in; write: x, h_in, out; back through it: x, h_in, grad, dx, dh_in; through the read: x, dh_in, dx
        # twice (that of the write is read)
        self.traffic = 9 * self.x_bytes + 5 * h_in + small
        self.copy_bytes = 3 * self.x_bytes + bytes_of([grad]) + small

    def tensors(self, place: int) -> tuple[torch.Tensor, MhcPreInputs, torch.Tensor]:
        """Return x, the inputs of the read (with x), and the gradient of the new streams."""
        if place not in self._copies:
            draw = Draw(self.axes, self.device, 100 + place)
            inputs = draw.inputs("mhc_pre", "forward")
            self._copies[place] = inputs.x, inputs, draw.data(draw.tokens, draw.n, draw.hidden)
        return self._copies[place]

    @functools.cached_property
    def golden(self) -> golden.Outputs:
        """The new streams and all gradients of the first copy, in float64."""
        _, inputs, grad = self.tensors(0)
        return self.exact(widen(inputs), grad.double())

    def exact(self, inputs: MhcPreInputs, grad: torch.Tensor) -> golden.Outputs:
        """Return the new streams and the gradients by autograd, in the dtype of the inputs."""
        out = equations(*inputs[:5])
        given = gradients(lambda *values: (equations(*values),), list(inputs[:5]), [grad])
        by_name = zip(_NAMES, given, strict=True)
        return {"out": out.detach(), **{name: value for name, value in by_name if value is not None}}

    def yardsticks(self) -> Mapping[str, Yardstick]:
        """Return what the budget of each output follows from."""
        _, inputs, grad = self.tensors(0)
        eager = self.contender(rivals.EAGER).outputs()
        moved = [lambda draw=draw: self.exact(nudged(inputs, draw), grad.double()) for draw in range(_NUDGES)]
        steps = golden.steps_of("backward", int(self.axes["tokens"]), _ITERATIONS)
        return golden.yardsticks(self.golden, eager, moved, "backward", steps)

    def contender(self, name: str) -> Any:
        """Return a contender."""
        if name in published.NAMES:
            return published.contender(name, self)
        return LayerContender(self, step_of(name))


def equations(
    x: torch.Tensor, phi: torch.Tensor, alpha: torch.Tensor, bias: torch.Tensor, gamma: torch.Tensor | None
) -> torch.Tensor:
    """Compute the layer by the equations of the reference."""
    h_in, h_post, logits, _, _ = mhc_pre.forward(x, phi, alpha, bias, gamma, 1e-6, 1e-6, 2.0, "fp32")
    (h_res,) = sinkhorn.forward(logits, _ITERATIONS, 0.0, "paper")
    return write.forward(x, h_in, h_post, h_res)[0]


def through_the_package(backend: str) -> Callable[..., torch.Tensor]:
    """Return the layer as ``HyperConnection`` calls it, with a named backend."""

    def layer(
        x: torch.Tensor, phi: torch.Tensor, alpha: torch.Tensor, bias: torch.Tensor, gamma: torch.Tensor | None
    ) -> torch.Tensor:
        x, (h_in, h_post, h_res) = read_with_x(x, phi, alpha, bias, gamma, iterations=_ITERATIONS, backend=backend)
        return mhc_post(x, h_in, h_post, h_res, backend=backend)

    return layer


@functools.cache
def step_of(name: str) -> Callable[..., torch.Tensor]:
    """Return the layer of a contender.

    Raises:
        AbsentError: there is none.
    """
    if name == rivals.EAGER:
        return equations
    if name in (rivals.COMPILE, rivals.AUTOTUNE):
        return rivals.compiled(equations, None if name == rivals.COMPILE else rivals.NO_GRAPHS)
    if name not in names():
        raise AbsentError(f"{name} has no layer")
    for op in ("mhc_pre", "sinkhorn", "mhc_post"):
        for direction in ("forward", "backward"):
            rivals.kernel(name, op, direction)
    return through_the_package(name)


class LayerContender:
    """A layer, and autograd through it."""

    def __init__(self, subject: LayerSubject, layer: Callable[..., torch.Tensor]) -> None:
        self._subject, self._layer = subject, layer

    def distances(self) -> Mapping[str, Distance]:
        """Run once and compare."""
        return golden.distances(self.outputs(), self._subject.golden)

    def outputs(self) -> golden.Outputs:
        """Return the new streams and the gradients of the first copy."""
        return self._step(0)()

    def runs(self, copies: int) -> Sequence[Run]:
        """Return a run for each copy."""
        return [self._step(place) for place in range(copies)]

    def _step(self, place: int) -> Callable[[], golden.Outputs]:
        _, inputs, grad = self._subject.tensors(place)
        leaves = [value if value is None else value.detach().requires_grad_() for value in inputs[:5]]
        wanted = {name: leaf for name, leaf in zip(_NAMES, leaves, strict=True) if leaf is not None}

        def step() -> golden.Outputs:
            with full_precision(grad.device):
                out = self._layer(*leaves)
                given = torch.autograd.grad([out], list(wanted.values()), [grad])
            return {"out": out.detach(), **dict(zip(wanted, given, strict=True))}

        return step
