"""The variant ``one_read`` of the backward: x in bf16, read once. A cluster of 16 blocks keeps it in shared memory."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, NamedTuple

import torch

from mhc.backends import Artifact, KeptCode, Kernel, combined, stage
from mhc.backends.cpp.compilers import artifact
from mhc.backends.cpp.devices import I32, Call, Launch, addresses_of, are_aligned, issue
from mhc.backends.cpp.hopper import STREAMS, Shape, clusters_of, refusal, streams_map
from mhc.backends.cpp.kernel import cdiv, refuse
from mhc.backends.cpp.source import Source
from mhc.ops.mhc_pre import MhcPreAddingInputs, MhcPreBackwardInputs, MhcPreGrads, MhcPreSpec

# As in one_read.cu.
_BLOCKS, _TOKENS, _WARP = 16, 16, 32
_OWN, _ADDERS = 64, 384  # columns and threads of a block that adds up sums
_SHARED_BYTES = 232448  # of a block, at most


class _Cut(NamedTuple):
    """Hold how the work is cut: the columns of one stream that a warp has, and the steps of x in shared memory.

    ``stages_adding`` are the steps where there is a gradient to add.
    """

    wide: int
    stages: int
    stages_adding: int


_CUTS = {2560: _Cut(32, 7, 6), 4096: _Cut(64, 5, 4)}  # by the hidden size

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
    """A call that was made, and the number of fp32 elements that it needs between its launches."""

    call: Call
    elements: int
    device: torch.device

    def launch(self, addresses: list[int]) -> bool:
        """Launch with other addresses, and return whether they are aligned, which they must be."""
        sums = torch.empty(self.elements, dtype=torch.float32, device=self.device)
        return self.call.launch([*addresses, sums.data_ptr()])


class OneRead(KeptCode):
    """``mhc_pre`` backward with one read of x. Tensors that are not aligned get the launches of ``otherwise``.

    It adds a gradient that came from elsewhere where ``otherwise`` does.
    """

    any_leading_dims = True

    def __init__(self, otherwise: Kernel) -> None:
        self._otherwise = otherwise
        self.adds_to_first = getattr(otherwise, "adds_to_first", False)

    def supports(self, spec: Any, target: str | None, tokens: int | None = None) -> str | None:
        """Return why the variant does not run the specialisation on ``target``, or None where it does."""
        if reason := refusal(spec, target):
            return reason
        if not isinstance(spec, MhcPreSpec) or spec.hidden not in _CUTS:
            return f"hidden is {spec.hidden}, and this variant is for mhc_pre with {' and '.join(map(str, _CUTS))}"
        return None

    def run(self, inputs: Any, out: Any, target: str | None = None) -> Any:
        """Run on the GPU that holds the inputs.

        Raises:
            NotSupportedError: the specialisation is not of this variant.
            ValueError: ``target`` is another architecture than the inputs' device.
        """
        addresses = addresses_of((*inputs, *out))
        if isinstance(inputs, MhcPreAddingInputs) and not inputs.overwritten:
            addresses.append(inputs.added.data_ptr())
        if not are_aligned(addresses):
            return self._otherwise.run(inputs, out, target)
        sums = _sums_of(inputs)
        addresses.append(sums.data_ptr())
        call = issue(lambda: self._made(inputs, out, sums), inputs[0].device, addresses, target)
        return None if call is None else _Again(call, sums.numel(), sums.device)

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile for ``sm_90``, with and without a gradient to add where the variant adds one.

        Raises:
            NotSupportedError: the specialisation is not of this variant.
        """
        refuse(self.supports(spec, target))
        sources = [_source(spec.hidden, adding) for adding in ((False, True) if self.adds_to_first else (False,))]
        return combined([artifact(source, target, (_NAME,), _threads(spec.hidden)) for source in sources])

    def _made(self, inputs: MhcPreBackwardInputs, out: MhcPreGrads, sums: torch.Tensor) -> tuple[Source, list[Launch]]:
        refuse(self.supports(inputs.spec, "sm_90"))
        added = inputs.added if isinstance(inputs, MhcPreAddingInputs) and out.x is not None else None
        with stage("lower"):
            source = _source(inputs.spec.hidden, added is not None)
        return source, _launches(inputs, out, added, sums)


@functools.cache
def _source(hidden: int, adding: bool) -> Source:
    cut = _CUTS[hidden]
    sizes = {"HIDDEN": hidden, "WIDE": cut.wide, "STAGES": cut.stages_adding if adding else cut.stages}
    sizes |= {"ADDING": int(adding), "SHARED_BYTES": _SHARED_BYTES}
    return Source("mhc_pre", STREAMS, torch.bfloat16, "one_read", tuple(sizes.items()), (("sm_90", "sm_90a"),))


def _threads(hidden: int) -> int:
    """Return the threads of a block: a warp has one stream of some columns."""
    return _WARP * STREAMS * hidden // _BLOCKS // _CUTS[hidden].wide


def _clusters(x: torch.Tensor) -> int:
    return min(clusters_of(x.device), cdiv(x.shape[:-2].numel(), _TOKENS))


def _sums_of(inputs: MhcPreBackwardInputs) -> torch.Tensor:
    """Return room for the sums of each cluster, and for two sums of each mix and what they lost, of each block."""
    spec, clusters = inputs.spec, _clusters(inputs.x)
    size = clusters * spec.mixes * (spec.width + 4 * _BLOCKS)
    return torch.empty(size, dtype=torch.float32, device=inputs.x.device)


def _launches(
    inputs: MhcPreBackwardInputs, out: MhcPreGrads, added: torch.Tensor | None, sums: torch.Tensor
) -> list[Launch]:
    """Return the launch with one read, and the launch that adds up the sums of its clusters."""
    x, spec, tokens, clusters = inputs.x, inputs.spec, inputs.x.shape[:-2].numel(), _clusters(inputs.x)
    grad = inputs.grad_h_in.view(tokens, 1, spec.hidden)
    tensors = (x, grad, x if out.x is None else out.x, x if added is None else added)
    wide = _CUTS[spec.hidden].wide
    maps = [streams_map(tensor, _TOKENS, wide, swizzled=True) for tensor in tensors]
    given = (*inputs[1:7], inputs.grad_h_post, inputs.grad_h_res, sums)
    addresses = [None if tensor is None else tensor.data_ptr() for tensor in given]
    problem = _Problem(*addresses, tokens, int(out.x is not None), spec.pre_eps, spec.post_scale)
    shape = Shape(_threads(spec.hidden), _SHARED_BYTES, _BLOCKS, early=True)
    first = Launch(_NAME, (_BLOCKS * clusters, 1, 1), (*maps, problem), shape)
    if not any(each is not None for each in out[1:]):
        return [first]
    arguments = (sums, inputs.phi, inputs.gamma, out.phi, out.gamma, out.alpha, out.bias, I32(clusters))
    return [first, Launch(_SUMS, (spec.width // _OWN + 1, 1, 1), arguments, Shape(_ADDERS, 0, 1, early=True))]
