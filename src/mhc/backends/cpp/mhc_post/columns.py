"""The variant ``columns`` of the forward: x in bf16, 16 bytes at a time, and a launch that may begin early."""

from __future__ import annotations

from typing import Any

import torch

from mhc.backends import Artifact, NotSupportedError, stage
from mhc.backends.cpp.compilers import THREADS, artifact
from mhc.backends.cpp.devices import U32, Launch, run
from mhc.backends.cpp.hopper import Shape
from mhc.backends.cpp.kernel import Kernel, cdiv
from mhc.backends.cpp.source import Source
from mhc.ops.mhc_post import MhcPostInputs, MhcPostOutputs, MhcPostSpec

_STREAMS = 4
_PIECE = 8  # columns of a thread, as in columns.cu
_ALIGNMENT = 16  # bytes of a load

_NAME = "mhc_post_columns"


class Columns:
    """``mhc_post`` forward. Tensors that are not aligned get the launch of ``plain``."""

    any_leading_dims = True

    def __init__(self, plain: Kernel) -> None:
        self._plain = plain

    def supports(self, spec: Any, target: str | None, tokens: int | None = None) -> str | None:
        """Return why the variant does not run the specialisation on ``target``, or None where it does."""
        if target != "sm_90":
            return "it is for NVIDIA's sm_90"
        if spec.dtype != torch.bfloat16:
            return f"x is {str(spec.dtype).removeprefix('torch.')}, and this variant is for bf16"
        if spec.streams != _STREAMS:
            return f"there are {spec.streams} streams, and this variant is for {_STREAMS}"
        return f"hidden is {spec.hidden}, and a thread has {_PIECE} columns" if spec.hidden % _PIECE else None

    def run(self, inputs: Any, out: Any, target: str | None = None) -> None:
        """Run on the GPU that holds the inputs.

        Raises:
            NotSupportedError: the specialisation is not of this variant.
            ValueError: ``target`` is another architecture than the inputs' device.
        """
        if any(tensor.data_ptr() % _ALIGNMENT for tensor in (*inputs, *out)):
            self._plain.run(inputs, out, target)
        elif reason := self.supports(inputs.spec, "sm_90"):
            raise NotSupportedError(reason)
        else:
            run(_source(inputs.spec), [_launch(inputs, out)], inputs.x.device, target)

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile for ``sm_90``.

        Raises:
            NotSupportedError: the specialisation is not of this variant.
        """
        if reason := self.supports(spec, target):
            with stage("lower"):
                raise NotSupportedError(reason)
        return artifact(_source(spec), target, (_NAME,))


def _source(spec: MhcPostSpec) -> Source:
    return Source("mhc_post", spec.streams, spec.dtype, "columns", (("HIDDEN", spec.hidden),), (("sm_90", "sm_90a"),))


def _launch(inputs: MhcPostInputs, out: MhcPostOutputs) -> Launch:
    pieces = inputs.y.numel() // _PIECE
    shape = Shape(THREADS, shared_bytes=0, cluster=1, early=True)
    return Launch(_NAME, (cdiv(pieces, THREADS), 1, 1), (*inputs, out.out, U32(pieces)), shape)
