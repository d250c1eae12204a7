"""Gradients of ``mhc_pre`` by autograd through the reference's equations."""

from __future__ import annotations

from mhc.backends.reference.eager import gradients, widen, write
from mhc.backends.reference.mhc_pre import equations
from mhc.ops.mhc_pre import MhcPreBackwardInputs, MhcPreGrads


def grads(inputs: MhcPreBackwardInputs) -> MhcPreGrads:
    """Compute in the dtypes of the inputs."""
    return MhcPreGrads(*gradients(equations, (*inputs[:5], *inputs[8:]), inputs[5:8])[:5])


def golden(inputs: MhcPreBackwardInputs) -> MhcPreGrads:
    """The same in float64 throughout."""
    return grads(widen(inputs))


def run(inputs: MhcPreBackwardInputs, out: MhcPreGrads, target: str | None = None) -> None:
    """Run eagerly on the device of the inputs; ``target`` changes nothing here."""
    write(grads(inputs), out)
