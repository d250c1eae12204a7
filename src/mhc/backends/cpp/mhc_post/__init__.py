"""``mhc_post`` and its gradients: a block of threads for each token.

Each direction has two variants, and ``variants.toml`` chooses one of them:

``plain``
    Right everywhere, and the default.
``columns``
    NVIDIA's sm_90, x in bf16 and four streams: a thread has eight columns at a time, and a launch may begin early.
"""

from __future__ import annotations

from mhc.backends.cpp.devices import I32, Launch
from mhc.backends.cpp.kernel import Kernel, whole
from mhc.backends.cpp.mhc_post import columns
from mhc.ops.mhc_post import MhcPostBackwardInputs, MhcPostGrads, MhcPostInputs, MhcPostOutputs


def _forward(inputs: MhcPostInputs, out: MhcPostOutputs) -> list[Launch]:
    hidden = inputs.x.shape[-1]
    arguments = (*inputs, out.out, I32(hidden), whole(hidden, inputs.x, inputs.y, out.out))
    return [Launch("mhc_post_forward", (inputs.x.shape[:-2].numel(), 1, 1), arguments)]


def _backward(inputs: MhcPostBackwardInputs, out: MhcPostGrads) -> list[Launch]:
    """Return the launches; a gradient has the same bits whatever else is asked for."""
    x, y, h_post, h_res, grad_out, _ = inputs
    hidden, grid = x.shape[-1], (x.shape[:-2].numel(), 1, 1)
    launches = []
    if out.x is not None or out.y is not None:
        last = (I32(hidden), whole(hidden, grad_out, out.x, out.y))
        launches.append(Launch("mhc_post_grad_rows", grid, (grad_out, h_post, h_res, out.x, out.y, *last)))
    if out.h_post is not None or out.h_res is not None:
        last = (I32(hidden), whole(hidden, grad_out, x, y))
        launches.append(Launch("mhc_post_grad_coefficients", grid, (grad_out, x, y, out.h_post, out.h_res, *last)))
    return launches


_PLAIN = Kernel("mhc_post", ("mhc_post_forward",), _forward)
_PLAIN_BACKWARD = Kernel("mhc_post", ("mhc_post_grad_rows", "mhc_post_grad_coefficients"), _backward)
FORWARD = {"plain": _PLAIN, "columns": columns.forward(_PLAIN)}
BACKWARD = {"plain": _PLAIN_BACKWARD, "columns": columns.backward(_PLAIN_BACKWARD)}
