"""The variant ``one_read`` of the backward: x in bf16, read once. A cluster of blocks keeps it in shared memory."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from mhc.backends import Artifact, Kernel, combined, stage
from mhc.backends.cpp.compilers import artifact
from mhc.backends.cpp.devices import I32, Call, Launch, issue
from mhc.backends.cpp.hopper import STREAMS, Shape, clusters_of, streams_map
from mhc.backends.cpp.kernel import ForHopper, cdiv, refuse
from mhc.backends.cpp.source import Source
from mhc.ops.mhc_pre import MhcPreAddingInputs, MhcPreBackwardInputs, MhcPreGrads, MhcPreSpec

# As in one_read.cu.
_TOKENS, _WARP = 16, 32
_OWN, _ADDERS = 32, 192  # columns and threads of a block that adds up sums
_GATES = 3  # of alpha
_SHARED_BYTES = 232448  # of a block, at most


class _Cut(NamedTuple):
    """Hold how the work is cut: the blocks of a cluster, and of one stream the columns that a warp has.

    ``stages`` are the steps of x in shared memory, and ``stages_adding`` those where there is a gradient to add.
    """

    blocks: int
    wide: int
    stages: int
    stages_adding: int


_CUTS = {  # by the hidden size
    1024: _Cut(4, 64, 5, 4),
    1280: _Cut(8, 32, 7, 6),
    2048: _Cut(8, 64, 5, 4),
    2560: _Cut(16, 32, 7, 6),
    4096: _Cut(16, 64, 5, 4),
}

_NAME, _SUMS = "mhc_pre_one_read", "mhc_pre_one_read_sums"


class _Problem(ctypes.Structure):
    """The kernel's last argument."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("phi", "alpha", "bias", "gamma", "m", "r", "grad_h_post", "grad_h_res")),
        ("chunks", ctypes.c_void_p),
        *((name, ctypes.c_int) for name in ("tokens", "stores_x")),
        *((name, ctypes.c_float) for name in ("pre_eps", "post_scale")),
    )


class _Again(NamedTuple):
    """A call that was made, and what returns the room that it needs between its launches."""

    call: Call
    room: Callable[[], torch.Tensor]

    def launch(self, addresses: list[int]) -> bool:
        """Launch with other addresses, and return whether they are aligned, which they must be."""
        sums = self.room()
        return self.call.launch([*addresses, sums.data_ptr()])


class OneRead(ForHopper):
    """``mhc_pre`` backward with one read of x. It adds a gradient that came from elsewhere where ``otherwise`` does."""

    def __init__(self, otherwise: Kernel) -> None:
        super().__init__(otherwise)
        self.adds_to_first = getattr(otherwise, "adds_to_first", False)

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile for ``sm_90``, with and without a gradient to add where the variant adds one.

        Raises:
            NotSupportedError: the specialisation is not of this variant.
        """
        refuse(self.supports(spec, target))
        sources = [_source(spec.hidden, adding) for adding in ((False, True) if self.adds_to_first else (False,))]
        return combined([artifact(source, target, (_NAME,), _threads(spec.hidden)) for source in sources])

    def _refusal(self, spec: Any) -> str | None:
        if isinstance(spec, MhcPreSpec) and spec.hidden in _CUTS:
            return None
        return f"hidden is {spec.hidden}, and this variant is for mhc_pre with {', '.join(map(str, _CUTS))}"

    def _addresses(self, inputs: MhcPreBackwardInputs, out: MhcPreGrads) -> list[int]:
        addresses = super()._addresses(inputs, out)
        if isinstance(inputs, MhcPreAddingInputs) and not inputs.overwritten:
            addresses.append(inputs.added.data_ptr())
        return addresses

    def _issued(
        self, inputs: MhcPreBackwardInputs, out: MhcPreGrads, addresses: list[int], target: str | None
    ) -> _Again | None:
        room = _room(inputs)
        sums = room()
        made = functools.partial(self._made, inputs, out, sums)
        call = issue(made, inputs.x.device, [*addresses, sums.data_ptr()], target)
        return None if call is None else _Again(call, room)

    def _made(self, inputs: Any, out: Any, *room: torch.Tensor) -> tuple[Source, list[Launch]]:
        refuse(self.supports(inputs.spec, "sm_90"))
        added = inputs.added if isinstance(inputs, MhcPreAddingInputs) and out.x is not None else None
        with stage("lower"):
            source = _source(inputs.spec.hidden, added is not None)
        return source, _launches(inputs, out, added, *room)


@functools.cache
def _source(hidden: int, adding: bool) -> Source:
    cut = _CUTS[hidden]
    sizes = {
        "HIDDEN": hidden,
        "BLOCKS": cut.blocks,
        "WIDE": cut.wide,
        "STAGES": cut.stages_adding if adding else cut.stages,
    }
    sizes |= {"ADDING": int(adding), "SHARED_BYTES": _SHARED_BYTES}
    return Source("mhc_pre", STREAMS, torch.bfloat16, "one_read", tuple(sizes.items()), (("sm_90", "sm_90a"),))


def _threads(hidden: int) -> int:
    """Return the threads of a block: a warp has one stream of some columns."""
    return _WARP * STREAMS * hidden // _CUTS[hidden].blocks // _CUTS[hidden].wide


def _clusters(x: torch.Tensor) -> int:
    return min(clusters_of(x.device, _CUTS[x.shape[-1]].blocks), cdiv(x.shape[:-2].numel(), _TOKENS))


def _room(inputs: MhcPreBackwardInputs) -> Callable[[], torch.Tensor]:
    """Return what makes room for the sums of each cluster, and for two of each mix and what they lost, of each block.

    It keeps none of the inputs.
    """
    spec, clusters = inputs.spec, _clusters(inputs.x)
    size = clusters * spec.mixes * (spec.width + 4 * _CUTS[spec.hidden].blocks)
    return functools.partial(torch.empty, size, dtype=torch.float32, device=inputs.x.device)


def _launches(
    inputs: MhcPreBackwardInputs, out: MhcPreGrads, added: torch.Tensor | None, sums: torch.Tensor
) -> list[Launch]:
    """Return the launch with one read, and the launch that adds up the sums of its clusters."""
    x, spec, tokens, clusters = inputs.x, inputs.spec, inputs.x.shape[:-2].numel(), _clusters(inputs.x)
    grad = inputs.grad_h_in.view(tokens, 1, spec.hidden)
    tensors = (x, grad, x if out.x is None else out.x, x if added is None else added)
    cut = _CUTS[spec.hidden]
    maps = [streams_map(tensor, _TOKENS, cut.wide, swizzled=True) for tensor in tensors]
    given = (*inputs[1:7], inputs.grad_h_post, inputs.grad_h_res, sums)
    addresses = [None if tensor is None else tensor.data_ptr() for tensor in given]
    problem = _Problem(*addresses, tokens, int(out.x is not None), spec.pre_eps, spec.post_scale)
    shape = Shape(_threads(spec.hidden), _SHARED_BYTES, cut.blocks, early=True)
    first = Launch(_NAME, (cut.blocks * clusters, 1, 1), (*maps, problem), shape)
    if not any(each is not None for each in out[1:]):
        return [first]
    arguments = (sums, inputs.phi, inputs.gamma, out.phi, out.gamma, out.alpha, out.bias, I32(clusters))
    blocks = spec.width // _OWN + cdiv(spec.mixes + _GATES, _ADDERS // _WARP)
    return [first, Launch(_SUMS, (blocks, 1, 1), arguments, Shape(_ADDERS, 0, 1, early=True))]
