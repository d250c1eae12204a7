"""Gradients of ``mhc_head`` by autograd through the reference's equations."""

from __future__ import annotations

from mhc.backends.reference.eager import gradients, widen, write
from mhc.backends.reference.mhc_head import equations
from mhc.ops.mhc_head import MhcHeadBackwardInputs, MhcHeadGrads


def grads(inputs: MhcHeadBackwardInputs) -> MhcHeadGrads:
    """Compute in the dtypes of the inputs."""
    return MhcHeadGrads(*gradients(equations, (*inputs[:5], *inputs[6:]), inputs[5:6])[:5])


def golden(inputs: MhcHeadBackwardInputs) -> MhcHeadGrads:
    """The same in float64 throughout."""
    return grads(widen(inputs))


def run(inputs: MhcHeadBackwardInputs, out: MhcHeadGrads, target: str | None = None) -> None:
    """Run eagerly on the device of the inputs; ``target`` changes nothing here."""
    write(grads(inputs), out)
