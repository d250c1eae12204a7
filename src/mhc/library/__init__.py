"""The operators in PyTorch, with gradients. Nothing in this package chooses a backend.

``operators``
    The description of each operator (``OPERATORS``); everything else here is the same code for all of them.
``call``
    The way from a function of :mod:`mhc.functional` to a kernel. Ordinary tensors in eager mode go through ``eager``,
    everything else through the dispatcher: tracing, transforms of ``torch.func``, subclasses of tensors.
``eager``
    Autograd functions without the dispatcher: half the time of Python.
``registration``
    ``torch.ops.mhc.*``: schemas, shapes for tracing, gradients, batching. ``torch.compile`` and ``torch.export`` see
    each operator as one node and its gradient as another.
``second_order``
    The gradient of a gradient.
``transforms``, ``batching``
    ``torch.func``: ``grad``, ``vjp`` and their like, and ``vmap``.
``sharding``
    ``DTensor``.
``execution``
    One run of one kernel.
``ahead``
    The other kernels of a layer, compiled while the first one runs.
"""

from mhc.library.call import call, read
from mhc.library.operators import (
    EXPAND,
    MHC_COEFFICIENTS,
    MHC_HEAD,
    MHC_POST,
    MHC_POST_PRE,
    MHC_PRE,
    MHC_PRE_NORM,
    MHC_PRE_NORM_FP8,
    MHC_READ,
    MHC_SINGLE_PASS,
    MHC_SINGLE_PASS_FP8,
    OPERATORS,
    SINKHORN,
    Operator,
)
from mhc.library.registration import register
from mhc.library.transforms import refuse_other_formats

for _operator in OPERATORS:
    register(_operator)

__all__ = [
    "EXPAND",
    "MHC_COEFFICIENTS",
    "MHC_HEAD",
    "MHC_POST",
    "MHC_POST_PRE",
    "MHC_PRE",
    "MHC_PRE_NORM",
    "MHC_PRE_NORM_FP8",
    "MHC_READ",
    "MHC_SINGLE_PASS",
    "MHC_SINGLE_PASS_FP8",
    "OPERATORS",
    "SINKHORN",
    "Operator",
    "call",
    "read",
    "refuse_other_formats",
]
