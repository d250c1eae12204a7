"""The CPU kernel of ``expand``: a loop over the columns per token."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

from mhc.backends.tilelang.compat import CPU_LAUNCH
from mhc.backends.tilelang.compat import cpu_language as T
from mhc.backends.tilelang.cpu import STORAGE
from mhc.backends.tilelang.expand.tensors import tensors_of
from mhc.ops.expand import ExpandSpec


def forward(spec: ExpandSpec, lanes: int) -> Any:
    """Return ``expand`` as a prim_func over out [tokens, n·hidden]; a copy of bits needs no ``lanes``."""
    streams, hidden = spec.streams, spec.hidden
    tensors = tensors_of(spec, STORAGE[spec.dtype][1], T)
    tokens = tensors.tokens

    @T.prim_func
    def expand(x: tensors.x, out: tensors.out):
        with T.Kernel(tokens, **CPU_LAUNCH) as token:
            for i in T.serial(streams):
                for d in T.serial(hidden):
                    out[token, i * hidden + d] = x[token, d]

    return expand
