"""The variant ``resident`` of the forward: x in bf16, read once. A cluster of blocks keeps it in shared memory."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, NamedTuple

import torch

from mhc.backends import Artifact, stage
from mhc.backends.cpp.compilers import artifact
from mhc.backends.cpp.devices import Launch
from mhc.backends.cpp.hopper import STREAMS, Shape, clusters_of, streams_map
from mhc.backends.cpp.kernel import ForHopper, cdiv, refuse
from mhc.backends.cpp.source import Source
from mhc.ops.mhc_head import MhcHeadInputs, MhcHeadOutputs, MhcHeadSpec
from mhc.ops.mhc_pre import MhcPreInputs, MhcPreOutputs, MhcPreSpec

# As in resident.cu.
_GROUP, _PROJECTING = 128, 256
_NARROW = 2048  # hidden size
_WIDEST_WHOLE = 80  # columns of a block that a warp has all of
_WIDEST_BOX = 248  # columns that one copy brings, without the eight more
_PARTS, _WHOLE = 6, 4  # registers of a thread for 16 columns of eight mixes, in three parts and whole
_REGISTERS = {5: 96, 4: 144}  # those for weights that the projecting threads have, by the groups of a block
_WHOLE_REGISTERS = 132  # those for whole weights; the others are needed to take them apart
_SHARED_BYTES = 232448  # of a block, at most
_STAGES = range(3, 10)  # steps that a block has in shared memory

_NAME = "mhc_pre_resident"

_Spec = MhcPreSpec | MhcHeadSpec


class _Cut(NamedTuple):
    """Hold how the work is cut.

    A cluster has ``blocks`` blocks, and a step ``tokens`` tokens. Of each stream a block has ``columns`` columns and a
    warp ``wide``; ``groups`` are of four warps, and ``stages`` steps are in the shared memory of a block. ``away`` is
    how many times 16 columns of a warp have their weights in shared memory; None: all weights are in registers, in
    three parts.
    """

    blocks: int
    tokens: int
    columns: int
    wide: int
    groups: int
    stages: int
    away: int | None

    @property
    def slots(self) -> int:
        """Return the steps on their way from the warps that add to those that mix."""
        return 4 if self.away is None else 2

    @property
    def boxes(self) -> int:
        """Return how many copies bring a block's columns of a stream."""
        return 1 if self.columns <= _WIDEST_BOX else 2

    @property
    def box_columns(self) -> int:
        """Return the columns that one copy brings, eight more than the block uses, as resident.cu says."""
        return self.columns // self.boxes + 8

    def front_bytes(self, mixes: int) -> int:
        """Return the bytes of the steps, and of the weights that are put away."""
        stage = STREAMS * self.tokens * 2 * self.boxes * self.box_columns
        return self.stages * stage + 4 * _WHOLE * (self.away or 0) * cdiv(mixes, 8) * _PROJECTING

    def phi_bytes(self, mixes: int) -> int:
        """Return the bytes of a block's columns of phi and gamma, which begin in the place of ``front_bytes``."""
        return 4 * (mixes + 1) * STREAMS * (self.columns + 8)

    def shared_bytes(self, mixes: int) -> int:
        """Return the bytes of ``Shared`` in resident.cu."""
        padded, sums = 8 * cdiv(mixes, 8), STREAMS * self.columns // self.wide
        between = 4 * self.tokens * (sums * (padded + 1) + self.slots * (padded + 4))
        barriers = 3 * self.stages + 2 * self.slots + 4
        return self.front_bytes(mixes) + between + self.stages * self.tokens * 4 * STREAMS + 8 * barriers


class _Problem(ctypes.Structure):
    """The kernel's second argument."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("phi", "alpha", "bias", "gamma", "h_in", "h_post", "h_res", "m", "r")),
        ("tokens", ctypes.c_int),
        *((name, ctypes.c_float) for name in ("norm_eps", "pre_eps", "post_scale")),
    )


class Resident(ForHopper):
    """``mhc_pre`` or ``mhc_head`` forward, in one launch."""

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile for ``sm_90``.

        Raises:
            NotSupportedError: the specialisation is not of this variant.
        """
        with stage("lower"):
            cut = self._cut_of(spec, target)
        return artifact(_source(spec, cut), target, (_NAME,), _GROUP * cut.groups)

    def _refusal(self, spec: _Spec) -> str | None:
        fits = _cut(spec.hidden, spec.mixes) is not None
        return (
            None if fits else f"hidden is {spec.hidden}: not {_blocks(spec.hidden)} times a number of columns that fits"
        )

    def _made(self, inputs: Any, out: Any, *room: torch.Tensor) -> tuple[Source, list[Launch]]:
        with stage("lower"):
            cut = self._cut_of(inputs.spec, "sm_90")
        return _source(inputs.spec, cut), [_launch(inputs, out, cut)]

    def _cut_of(self, spec: _Spec, target: str) -> _Cut:
        refuse(self.supports(spec, target))
        cut = _cut(spec.hidden, spec.mixes)
        assert cut is not None  # or `supports` would have had a reason
        return cut


@functools.cache
def _source(spec: _Spec, cut: _Cut) -> Source:
    sizes = {"MIXES": spec.mixes, "BLOCKS": cut.blocks, "TOKENS": cut.tokens, "COLUMNS": cut.columns}
    sizes |= {"WIDE": cut.wide, "SLOTS": cut.slots, "AWAY": -1 if cut.away is None else cut.away}
    sizes |= {"STAGES": cut.stages, "GROUPS": cut.groups, "SHARED_BYTES": cut.shared_bytes(spec.mixes)}
    return Source("mhc_pre", spec.streams, spec.dtype, "resident", tuple(sizes.items()), (("sm_90", "sm_90a"),))


def _launch(inputs: MhcPreInputs | MhcHeadInputs, out: MhcPreOutputs | MhcHeadOutputs, cut: _Cut) -> Launch:
    x, spec, tokens = inputs.x, inputs.spec, inputs.x.shape[:-2].numel()
    outputs = out if isinstance(out, MhcPreOutputs) else (out.out, None, None, out.m, out.r)
    addresses = [None if tensor is None else tensor.data_ptr() for tensor in (*inputs[1:5], *outputs)]
    post_scale = spec.post_scale if isinstance(spec, MhcPreSpec) else 0.0
    problem = _Problem(*addresses, tokens, spec.norm_eps, spec.pre_eps, post_scale)
    clusters = min(clusters_of(x.device, cut.blocks), cdiv(tokens, cut.tokens))
    arguments = (streams_map(x, cut.tokens, cut.box_columns), problem)
    shape = Shape(_GROUP * cut.groups, cut.shared_bytes(spec.mixes), cut.blocks, early=True)
    return Launch(_NAME, (cut.blocks * clusters, 1, 1), arguments, shape)


def _blocks(hidden: int) -> int:
    """Return the blocks of a cluster. In a narrow layer 16 would have few columns each, and wait for each other."""
    return 8 if hidden <= _NARROW else 16


@functools.cache
def _cut(hidden: int, mixes: int) -> _Cut | None:
    """Return how the work is cut, or None where it cannot be.

    A warp has the columns of a block, or one half of them, and its weights in registers. More registers for these
    leave room for fewer warps. Where not even that is enough, the weights are whole, and some of them are put away.
    """
    blocks = _blocks(hidden)
    columns = hidden // blocks
    for halves, tokens, widest in ((1, 32, _WIDEST_WHOLE), (2, 16, _WIDEST_BOX)):
        wide = columns // halves
        if hidden != blocks * columns or columns % (16 * halves) or wide > widest:
            continue
        steps, tiles = wide // 16, cdiv(mixes, 8)
        groups = next((groups for groups, most in _REGISTERS.items() if _PARTS * steps * tiles <= most), None)
        away = None if groups else max(0, steps - _WHOLE_REGISTERS // (_WHOLE * tiles))
        if groups is None and halves == 1:
            continue
        cuts = (_Cut(blocks, tokens, columns, wide, groups or 4, stages, away) for stages in reversed(_STAGES))
        return next((cut for cut in cuts if cut.shared_bytes(mixes) <= _SHARED_BYTES), None)
    return None
