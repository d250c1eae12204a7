"""``mhc_head`` in Triton: ``mhc_pre`` without the coefficients that write back."""

from __future__ import annotations

import functools

from mhc.backends import Artifact
from mhc.backends.triton.mhc_pre import compile_forward, launch_forward
from mhc.ops.mhc_head import MhcHeadInputs, MhcHeadOutputs, MhcHeadSpec


def run(inputs: MhcHeadInputs, out: MhcHeadOutputs, target: str | None = None) -> None:
    """Launch on the current stream of the inputs' device, or run in Triton's interpreter where that is on.

    Raises:
        RuntimeError: the inputs are on a CPU and the interpreter is off.
        ValueError: ``target`` is another architecture than the inputs' device.
    """
    launch_forward(inputs, (out.out, None, None), target)


@functools.cache
def compile(spec: MhcHeadSpec, target: str) -> Artifact:
    """Compile for ``target`` (``sm_90``, ``gfx942``) as :func:`run` would there, with no device.

    Raises:
        ValueError: Triton compiles for no such target, or the kernel needs more shared memory than it has.
    """
    return compile_forward(spec, target)
