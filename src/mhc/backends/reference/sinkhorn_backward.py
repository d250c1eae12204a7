"""Gradients of ``sinkhorn`` by autograd through the reference's equations."""

from __future__ import annotations

from mhc.backends.reference.eager import gradients, widen, write
from mhc.backends.reference.sinkhorn import equations
from mhc.ops.sinkhorn import SinkhornBackwardInputs, SinkhornGrads


def grads(inputs: SinkhornBackwardInputs) -> SinkhornGrads:
    """Compute in the dtypes of the inputs."""
    return SinkhornGrads(*gradients(equations, (inputs.logits, *inputs[2:]), inputs[1:2])[:1])


def golden(inputs: SinkhornBackwardInputs) -> SinkhornGrads:
    """The same in float64 throughout."""
    return grads(widen(inputs))


def run(inputs: SinkhornBackwardInputs, out: SinkhornGrads, target: str | None = None) -> None:
    """Run eagerly on the device of the inputs; ``target`` changes nothing here."""
    write(grads(inputs), out)
