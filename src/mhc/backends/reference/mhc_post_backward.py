"""Gradients of ``mhc_post`` by autograd through the reference's equations."""

from __future__ import annotations

from mhc.backends.reference.eager import gradients, widen, write
from mhc.backends.reference.mhc_post import equations
from mhc.ops.mhc_post import MhcPostBackwardInputs, MhcPostGrads


def grads(inputs: MhcPostBackwardInputs) -> MhcPostGrads:
    """Compute in the dtypes of the inputs."""
    return MhcPostGrads(*gradients(equations, inputs[:4], inputs[4:]))


def golden(inputs: MhcPostBackwardInputs) -> MhcPostGrads:
    """The same in float64 throughout."""
    return grads(widen(inputs))


def run(inputs: MhcPostBackwardInputs, out: MhcPostGrads, target: str | None = None) -> None:
    """Run eagerly on the device of the inputs; ``target`` changes nothing here."""
    write(grads(inputs), out)
