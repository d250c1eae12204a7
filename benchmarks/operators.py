"""The operators of the package as subjects: one alone, or ``read``, which is mhc_pre with Sinkhorn behind it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import golden
import published
import rivals
import torch

from draws import OPS, Draw, bytes_of, nudged
from kernel_matrix.tools.bench.inside.protocol import Distance, Run, Yardstick
from mhc.backends import load

_NUDGES = 2


class OperatorSubject:
    """One operator in one direction with one shape."""

    def __init__(self, op: str, direction: str, axes: Mapping[str, Any], device: torch.device) -> None:
        self.op, self.direction, self.axes, self.device = op, direction, axes, device
        self._copies: dict[int, Any] = {}
        first = self.inputs(0)
        self.x_bytes = bytes_of([first[0]])
        self.traffic = self.copy_bytes = bytes_of(first) + bytes_of(self.empty(first))

    def inputs(self, place: int) -> Any:
        """Return the inputs of a copy; all contenders share them."""
        if place not in self._copies:
            self._copies[place] = Draw(self.axes, self.device, 100 + place).inputs(self.op, self.direction)
        return self._copies[place]

    def empty(self, inputs: Any) -> Any:
        """Return outputs for the inputs."""
        module = OPS[self.op]
        return module.empty_outputs(inputs) if self.direction == "forward" else module.empty_grads(inputs)

    @functools.cached_property
    def golden(self) -> golden.Outputs:
        """The float64 outputs of the first copy."""
        return self.exact(self.inputs(0))

    def exact(self, inputs: Any) -> golden.Outputs:
        """Return the outputs in float64."""
        return golden.present(load("reference", self.op, self.direction).golden(inputs))

    def yardsticks(self) -> Mapping[str, Yardstick]:
        """Return what the budget of each output follows from."""
        first = self.inputs(0)
        eager = self.empty(first)
        load("reference", self.op, self.direction).run(first, eager)
        moved = [functools.partial(self._moved, draw) for draw in range(_NUDGES)]
        iterations = getattr(first, "iterations", 0)
        steps = golden.steps_of(self.direction, int(self.axes["tokens"]), iterations)
        return golden.yardsticks(self.golden, golden.present(eager), moved, self.direction, steps)

    def _moved(self, draw: int) -> golden.Outputs:
        return self.exact(nudged(self.inputs(0), draw))

    def contender(self, name: str) -> Any:
        """Return a contender; a published library is one of its own."""
        if name in published.NAMES:
            return published.contender(name, self)
        return KernelContender(self, rivals.kernel(name, self.op, self.direction))


class KernelContender:
    """A kernel that writes into given outputs."""

    def __init__(self, subject: Any, kernel: rivals.Kernel) -> None:
        self._subject, self._kernel = subject, kernel

    def distances(self) -> Mapping[str, Distance]:
        """Run once into poisoned outputs, and compare."""
        inputs = self._subject.inputs(0)
        outputs = self._subject.empty(inputs)
        golden.poison(outputs)
        self._kernel.run(inputs, outputs)
        return golden.distances(golden.present(outputs), self._subject.golden)

    def runs(self, copies: int) -> Sequence[Run]:
        """Return a run for each copy."""
        return [self._run(place) for place in range(copies)]

    def _run(self, place: int) -> Run:
        inputs = self._subject.inputs(place)
        outputs = self._subject.empty(inputs)
        return lambda: self._kernel.run(inputs, outputs)


class ReadSubject:
    """``mhc_pre`` and ``sinkhorn`` in turn: what a layer reads. Backward, they go back in turn.

    The floor counts x, the parameters and the outputs of both; the logits between them could stay on the chip.
    """

    def __init__(self, op: str, direction: str, axes: Mapping[str, Any], device: torch.device) -> None:
        self.op, self.direction, self.axes, self.device = op, direction, axes, device
        self._copies: dict[int, tuple[Any, Any]] = {}
        pre, matrix = self.inputs(0)
        first, second = self.empty(0)
        self.x_bytes = bytes_of([pre.x])
        every = bytes_of(pre) + bytes_of(matrix) + bytes_of(first) + bytes_of(second)
        between = bytes_of([matrix.logits]) if direction == "forward" else 2 * bytes_of([pre.grad_h_res])
        # The logits are written by the one and read by the other, and so is the gradient of them.
        self.copy_bytes = every
        self.traffic = every - (2 if direction == "forward" else 1) * between

    def inputs(self, place: int) -> tuple[Any, Any]:
        """Return the inputs of both; all contenders share them."""
        if place not in self._copies:
            self._copies[place] = self._drawn(place)
        return self._copies[place]

    def _drawn(self, place: int) -> tuple[Any, Any]:
        """Return new inputs of both. The logits of the backward are those that the forward of the first has made."""
        draw = Draw(self.axes, self.device, 100 + place)
        pre = draw.inputs("mhc_pre", self.direction)
        sinkhorn = OPS["sinkhorn"]
        constants = {"iterations": 20, "eps": 0.0, "form": "paper"}
        shape = (draw.tokens, draw.n, draw.n)
        if self.direction == "forward":
            return pre, sinkhorn.SinkhornInputs(torch.empty(shape, device=self.device), **constants)
        logits = pre.alpha[2] * pre.m[:, 2 * draw.n :] + pre.bias[2 * draw.n :]
        return pre, sinkhorn.SinkhornBackwardInputs(logits.reshape(shape), draw.normal(*shape), **constants)

    def empty(self, place: int) -> tuple[Any, Any]:
        """Return outputs of both."""
        pre, matrix = self.inputs(place)
        if self.direction == "forward":
            return OPS["mhc_pre"].empty_outputs(pre), OPS["sinkhorn"].empty_outputs(matrix)
        return OPS["mhc_pre"].empty_grads(pre), OPS["sinkhorn"].empty_grads(matrix)

    @functools.cached_property
    def golden(self) -> golden.Outputs:
        """The float64 outputs of the first copy."""
        return self.exact(*self.inputs(0))

    def exact(self, pre: Any, matrix: Any) -> golden.Outputs:
        """Return the outputs in float64."""
        first, second = (load("reference", op, self.direction) for op in ("mhc_pre", "sinkhorn"))
        if self.direction == "forward":
            given = first.golden(pre)
            mixed = second.golden(matrix._replace(logits=given.h_res)).matrix
            return {"h_in": given.h_in, "h_post": given.h_post, "h_res": mixed}
        logits = second.golden(matrix).logits
        return golden.present(first.golden(pre._replace(grad_h_res=logits)))

    def yardsticks(self) -> Mapping[str, Yardstick]:
        """Return what the budget of each output follows from."""
        eager = self.contender(rivals.EAGER).outputs()
        moved = [functools.partial(self._moved, draw) for draw in range(_NUDGES)]
        steps = golden.steps_of(self.direction, int(self.axes["tokens"]), 20)
        return golden.yardsticks(self.golden, eager, moved, self.direction, steps)

    def _moved(self, draw: int) -> golden.Outputs:
        pre, matrix = self.inputs(0)
        return self.exact(nudged(pre, draw), nudged(matrix, draw))

    def contender(self, name: str) -> Any:
        """Return a contender."""
        if name in published.NAMES:
            return published.contender(name, self)
        kernels = [rivals.kernel(name, op, self.direction) for op in ("mhc_pre", "sinkhorn")]
        return ReadContender(self, *kernels)


class ReadContender:
    """Two kernels in turn, the one on what the other gives."""

    def __init__(self, subject: ReadSubject, first: rivals.Kernel, second: rivals.Kernel) -> None:
        self._subject, self._first, self._second = subject, first, second

    def distances(self) -> Mapping[str, Distance]:
        """Run once into poisoned outputs, and compare."""
        return golden.distances(self.outputs(), self._subject.golden)

    def outputs(self) -> golden.Outputs:
        """Return the outputs of the first copy."""
        run, first, second = self._made(0)
        golden.poison(first)
        golden.poison(second)
        run()
        if self._subject.direction == "forward":
            return {"h_in": first.h_in, "h_post": first.h_post, "h_res": second.matrix}
        return golden.present(first)

    def runs(self, copies: int) -> Sequence[Run]:
        """Return a run for each copy."""
        return [self._made(place)[0] for place in range(copies)]

    def _made(self, place: int) -> tuple[Callable[[], None], Any, Any]:
        pre, matrix = self._subject.inputs(place)
        first, second = self._subject.empty(place)
        if self._subject.direction == "forward":
            between = matrix._replace(logits=first.h_res)
            steps = ((self._first, pre, first), (self._second, between, second))
        else:
            between = pre._replace(grad_h_res=second.logits)
            steps = ((self._second, matrix, second), (self._first, between, first))

        def run() -> None:
            for kernel, inputs, outputs in steps:
                kernel.run(inputs, outputs)

        return run, first, second
