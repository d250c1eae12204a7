"""From an operator's equations in PyTorch to a ``run`` that Inductor has compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mhc.backends import stage
from mhc.backends.reference.eager import Equations, write

# Dynamo keeps one list of specialisations per function and by default refuses the ninth; every (streams, hidden, dtype,
# gamma) is one here, and asked for, not a runaway.
_SPECIALISATIONS = 1024


def compiled_run(equations: Equations, **options: int) -> Callable[..., None]:
    """A ``run`` on the device of the inputs; its ``target`` changes nothing, and the number of tokens is free.

    ``options`` are Inductor's own.
    """
    compiled = torch.compile(equations, fullgraph=True, options=options or None)

    def run(inputs: tuple[Any, ...], out: tuple[Any, ...], target: str | None = None) -> None:
        torch._dynamo.maybe_mark_dynamic(inputs[0], 0)
        with stage("compile"), torch._dynamo.config.patch(recompile_limit=_SPECIALISATIONS):
            results = compiled(*inputs)
        write(results, out)

    return run
