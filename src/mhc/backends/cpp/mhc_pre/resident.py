"""The variant ``resident`` of the forward: x in bf16, read once. A cluster of 16 blocks keeps it in shared memory."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import torch

from mhc.backends import Artifact, NotSupportedError, stage
from mhc.backends.cpp.compilers import artifact
from mhc.backends.cpp.devices import Launch, run
from mhc.backends.cpp.hopper import Shape, clusters_of, streams_map
from mhc.backends.cpp.kernel import Kernel, cdiv
from mhc.backends.cpp.source import Source
from mhc.ops.mhc_head import MhcHeadInputs, MhcHeadOutputs, MhcHeadSpec
from mhc.ops.mhc_pre import MhcPreInputs, MhcPreOutputs, MhcPreSpec

# As in resident.cu.
_BLOCKS, _STREAMS, _SLOTS, _THREADS = 16, 4, 4, 640
_MOST_WIDE = 80  # columns whose weights a warp has in registers
_ALIGNMENT = 16  # bytes of the widest loads and stores, and of a tensor map's tensor

_NAME = "mhc_pre_resident"


class _Cut(NamedTuple):
    """Hold how the work is cut: the tokens of a step, the columns of a block, and those of a warp, of each stream."""

    tokens: int
    columns: int
    wide: int


class _Problem(ctypes.Structure):
    """The kernel's second argument."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("phi", "alpha", "bias", "gamma", "h_in", "h_post", "h_res", "m", "r")),
        ("tokens", ctypes.c_int),
        *((name, ctypes.c_float) for name in ("norm_eps", "pre_eps", "post_scale")),
    )


class Resident:
    """``mhc_pre`` or ``mhc_head`` forward, in one launch. Tensors that are not aligned get the launch of ``plain``."""

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
        if _cut(spec.hidden) is None:
            return f"hidden is {spec.hidden}: not 16 times a number of columns that fits"
        return None

    def run(self, inputs: Any, out: Any, target: str | None = None) -> None:
        """Run on the GPU that holds the inputs.

        Raises:
            NotSupportedError: the specialisation is not of this variant.
            ValueError: ``target`` is another architecture than the inputs' device.
        """
        tensors = (tensor for tensor in (*inputs[:5], *out) if tensor is not None)
        if any(tensor.data_ptr() % _ALIGNMENT for tensor in tensors if tensor.dim() > 1):
            self._plain.run(inputs, out, target)
            return
        run(self._source(inputs.spec), [_launch(inputs, out)], inputs.x.device, target)

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile for ``sm_90``.

        Raises:
            NotSupportedError: the specialisation is not of this variant.
        """
        if reason := self.supports(spec, target):
            with stage("lower"):
                raise NotSupportedError(reason)
        return artifact(self._source(spec), target, (_NAME,), _THREADS)

    @staticmethod
    def _source(spec: MhcPreSpec | MhcHeadSpec) -> Source:
        cut = _cut(spec.hidden)
        if cut is None:
            with stage("lower"):
                raise NotSupportedError(f"hidden is {spec.hidden}")
        sizes = {"MIXES": spec.mixes, "TOKENS": cut.tokens, "COLUMNS": cut.columns, "WIDE": cut.wide}
        constants = (*sizes.items(), ("STAGES", _stages(cut)), ("SHARED_BYTES", _shared_bytes(cut, spec.mixes)))
        return Source("mhc_pre", spec.streams, spec.dtype, "resident", constants, (("sm_90", "sm_90a"),))


def _launch(inputs: MhcPreInputs | MhcHeadInputs, out: MhcPreOutputs | MhcHeadOutputs) -> Launch:
    x, spec = inputs.x, inputs.spec
    cut, tokens = _cut(spec.hidden), x.shape[:-2].numel()
    assert cut is not None
    outputs = out if isinstance(out, MhcPreOutputs) else (out.out, None, None, out.m, out.r)
    addresses = [None if tensor is None else tensor.data_ptr() for tensor in (*inputs[1:5], *outputs)]
    post_scale = spec.post_scale if isinstance(spec, MhcPreSpec) else 0.0
    problem = _Problem(*addresses, tokens, spec.norm_eps, spec.pre_eps, post_scale)
    clusters = min(clusters_of(x.device), cdiv(tokens, cut.tokens))
    # A copy brings eight columns more than the block has, as resident.cu says.
    arguments = (streams_map(x, cut.tokens, cut.columns + 8), problem)
    shape = Shape(_THREADS, _shared_bytes(cut, spec.mixes), _BLOCKS)
    return Launch(_NAME, (_BLOCKS * clusters, 1, 1), arguments, shape)


def _cut(hidden: int) -> _Cut | None:
    """Return how the work is cut, or None where it cannot be: a warp has one half of a block's columns, or all."""
    columns = hidden // _BLOCKS
    for halves, tokens in ((1, 32), (2, 16)):
        if hidden == _BLOCKS * columns and columns % (16 * halves) == 0 and columns <= halves * _MOST_WIDE:
            return _Cut(tokens, columns, columns // halves)
    return None


def _stages(cut: _Cut) -> int:
    """Return the steps that a block has in shared memory: as many as fit at the widest columns."""
    return 8 if cut.tokens == 32 else 9


def _shared_bytes(cut: _Cut, mixes: int) -> int:
    """Return the bytes of ``Shared`` in resident.cu."""
    padded, sums, stages = 8 * cdiv(mixes, 8), _STREAMS * cut.columns // cut.wide, _stages(cut)
    x = stages * _STREAMS * cut.tokens * 2 * (cut.columns + 8)
    between = 4 * sums * cut.tokens * (padded + 1) + 4 * _SLOTS * cut.tokens * (padded + 4)
    return x + between + stages * cut.tokens * 4 * _STREAMS + 8 * (3 * stages + 2 * _SLOTS + 2)
