"""``mhc_pre`` of the reference, compiled by Inductor; one compilation serves every number of tokens above one."""

from __future__ import annotations

import torch

from mhc.backends import stage
from mhc.backends.reference.mhc_pre import equations
from mhc.ops.mhc_pre import MhcPreInputs, MhcPreOutputs

_compiled = torch.compile(equations, fullgraph=True)

# Dynamo keeps one list of specialisations per function and by default refuses the ninth; every (streams, hidden, dtype,
# gamma) is one here, and asked for, not a runaway.
_SPECIALISATIONS = 1024


def run(inputs: MhcPreInputs, out: MhcPreOutputs, target: str | None = None) -> None:
    """Run on the device of the inputs, for which Inductor compiles; ``target`` changes nothing here."""
    torch._dynamo.maybe_mark_dynamic(inputs.x, 0)
    with stage("compile"), torch._dynamo.config.patch(recompile_limit=_SPECIALISATIONS):
        results = _compiled(*inputs)
    for result, into in zip(results, out, strict=True):
        into.copy_(result)
