"""The kernels of Inductor: equations in PyTorch, compiled when they first run."""

from __future__ import annotations

from typing import Any

import torch

from mhc.backends import stage
from mhc.backends.reference.kernel import Equations, full_precision, write

# Dynamo keeps one list of specialisations per function and by default refuses the ninth. Here every combination of
# streams, hidden, dtype and gamma is one, on purpose.
_SPECIALISATIONS = 1024
_OF_ALL_TOKENS = {
    "phi",
    "alpha",
    "bias",
    "gamma",
    "norm_weight",
}  # every other tensor has the tokens as its first dimension


class Kernel:
    """``equations`` through ``torch.compile``; ``options`` are Inductor's own."""

    def __init__(self, equations: Equations, **options: int) -> None:
        self._compiled = torch.compile(equations, fullgraph=True, options=options or None)

    def run(self, inputs: Any, out: tuple[torch.Tensor | None, ...], target: str | None = None) -> None:
        """Run on the device of the inputs; ``target`` changes nothing here, and the number of tokens is free.

        All gradients are computed, also those that are not asked for. For every other set of them Inductor would
        compile another graph, which on a GPU adds up in another order and gives other bits.
        """
        if (needs := getattr(inputs, "needs", None)) is not None:
            inputs = inputs._replace(needs=(True,) * len(needs))
        # Dynamo compiles anew where a tensor needs a gradient that did not before, and where gradients are switched on
        # or off. Autograd calls with both; a kernel never needs a gradient.
        values = {name: value.detach() for name, value in inputs._asdict().items() if isinstance(value, torch.Tensor)}
        for name, value in values.items():
            if name not in _OF_ALL_TOKENS:  # one tensor whose size counts as fixed fixes the number of tokens
                torch._dynamo.maybe_mark_dynamic(value, 0)
        inputs = inputs._replace(**values)
        with (
            torch.no_grad(),
            full_precision(inputs[0].device),
            stage("compile"),
            torch._dynamo.config.patch(recompile_limit=_SPECIALISATIONS),
        ):
            results = self._compiled(*inputs)
        write(results, out)

    def supports(self, spec: Any, target: str | None, tokens: int | None = None) -> str | None:
        """Return None: Inductor compiles any number of streams."""
        return None
