"""The description of each operator for PyTorch."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mhc.ops import (
    expand,
    mhc_coefficients,
    mhc_head,
    mhc_post,
    mhc_post_pre,
    mhc_pre,
    mhc_pre_norm,
    mhc_pre_norm_fp8,
    mhc_read,
    mhc_single_pass,
    mhc_single_pass_fp8,
    sinkhorn,
)


@dataclass(frozen=True, eq=False)
class Operator:
    """The description of one operator for PyTorch.

    ``tensors`` and ``options`` are the forward's arguments; the backward takes ``tensors``, ``saved`` (the last outputs
    of the forward), ``grads`` (the gradients of its first outputs) and ``options``, and, where ``needs`` is true, for
    each of ``tensors`` whether its gradient is asked for. An output is saved, has a gradient, or both. Where
    ``keeps_inputs`` is false, the backward needs nothing of the forward and takes only ``grads``.

    ``token_dims`` says for each of ``tensors`` how many dimensions one token has in it, None for a parameter, which has
    no tokens; ``result_dims`` says it for the results. ``inputs`` and ``backward_inputs`` are the types that a kernel
    gets. An operator whose ``backward_inputs`` are None has no backward, and gives what it does not save.
    """

    name: str
    tensors: tuple[str, ...]
    token_dims: tuple[int | None, ...]
    options: tuple[str, ...]
    result_dims: tuple[int, ...]
    inputs: type[Any]
    empty_outputs: Callable[[Any], tuple[torch.Tensor, ...]]
    grads: tuple[str, ...] = ()
    backward_inputs: Any = None
    empty_grads: Any = None
    saved: tuple[str, ...] = ()
    needs: bool = True
    keeps_inputs: bool = True

    @property
    def schema(self) -> str:
        """Return the schema of the forward."""
        count = len(self.result_dims)
        results = f"({', '.join(['Tensor'] * count)})" if count > 1 else "Tensor"
        return f"{self.name}({', '.join((*self.tensors, *self.options, 'str backend'))}) -> {results}"

    @property
    def backward_schema(self) -> str:
        """Return the schema of the backward; gradients of inputs that are None are left out."""
        tensors, options = (self.tensors, self.options) if self.keeps_inputs else ((), ())
        needs = ("bool[] needs",) if self.needs else ()
        arguments = (*tensors, *self.saved, *self.grads, *options, *needs, "str backend")
        return f"{self.name}_backward({', '.join(arguments)}) -> Tensor[]"

    def backward_parts(self, arguments: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
        """Return the forward's tensors, its saved outputs, the gradients, and the other arguments of the backward."""
        counts = (len(self.tensors) if self.keeps_inputs else 0, len(self.saved), len(self.grads))
        ends = list(itertools.accumulate(counts, initial=0))
        parts = [tuple(arguments[start:end]) for start, end in itertools.pairwise(ends)]
        return (*parts, tuple(arguments[ends[-1] :]))

    @functools.cached_property
    def backward_tensors(self) -> int:
        """Return how many arguments of the backward are tensors; they come first."""
        return (len(self.tensors) if self.keeps_inputs else 0) + len(self.saved) + len(self.grads)

    def kept(self, outputs: Sequence[Any]) -> tuple[Any, ...]:
        """Return what the backward takes of the forward's outputs, or of something else that is said of each output."""
        return tuple(outputs[len(self.result_dims) - len(self.saved) :])

    @property
    def results(self) -> int:
        """Return how many of its outputs, the first ones, a caller gets."""
        return len(self.grads) if self.backward_inputs else len(self.result_dims) - len(self.saved)

    @property
    def parameters(self) -> tuple[bool, ...]:
        """Return for each of ``tensors`` whether it is a parameter."""
        return tuple(dims is None for dims in self.token_dims)


def flat(tensor: torch.Tensor, dims: int) -> torch.Tensor:
    """Return the tensor with one dimension of tokens before the ``dims`` dimensions of a token, of any size."""
    lead = tensor.dim() - dims
    return tensor.unsqueeze(0) if lead == 0 else tensor.flatten(0, lead - 1)


_MAPPING = ("Tensor x", "Tensor phi", "Tensor alpha", "Tensor bias", "Tensor? gamma")
_MAPPING_DIMS = (2, None, None, None, None)
_NORM_EPS, _PRE_EPS, _PRECISION = "float norm_eps", "float pre_eps", "str precision"
_SAVED = ("Tensor m", "Tensor r")

MHC_PRE = Operator(
    name="mhc_pre",
    tensors=_MAPPING,
    token_dims=_MAPPING_DIMS,
    options=(_NORM_EPS, _PRE_EPS, "float post_scale", _PRECISION),
    result_dims=(1, 1, 2, 1, 0),
    saved=_SAVED,
    grads=("Tensor grad_h_in", "Tensor grad_h_post", "Tensor grad_h_res"),
    inputs=mhc_pre.MhcPreInputs,
    backward_inputs=mhc_pre.MhcPreBackwardInputs,
    empty_outputs=mhc_pre.empty_outputs,
    empty_grads=mhc_pre.empty_grads,
)
MHC_PRE_NORM = Operator(
    name="mhc_pre_norm",
    tensors=(*_MAPPING, "Tensor norm_weight"),
    token_dims=(*_MAPPING_DIMS, None),
    options=MHC_PRE.options,
    result_dims=(1, 1, 2, 1, 0, 1, 0),
    saved=("Tensor read", "Tensor s", *_SAVED),
    grads=MHC_PRE.grads,
    inputs=mhc_pre_norm.MhcPreNormInputs,
    backward_inputs=mhc_pre_norm.MhcPreNormBackwardInputs,
    empty_outputs=mhc_pre_norm.empty_outputs,
    empty_grads=mhc_pre_norm.empty_grads,
)
MHC_PRE_NORM_FP8 = Operator(
    name="mhc_pre_norm_fp8",
    tensors=MHC_PRE_NORM.tensors,
    token_dims=MHC_PRE_NORM.token_dims,
    options=(*MHC_PRE_NORM.options, "bool power_of_two_scales"),
    result_dims=(1, *MHC_PRE_NORM.result_dims),
    saved=MHC_PRE_NORM.saved,
    inputs=mhc_pre_norm_fp8.MhcPreNormFp8Inputs,
    empty_outputs=mhc_pre_norm_fp8.empty_outputs,
)
SINKHORN = Operator(
    name="sinkhorn",
    tensors=("Tensor logits",),
    token_dims=(2,),
    options=("int iterations", "float eps", "str form"),
    result_dims=(2,),
    grads=("Tensor grad_matrix",),
    inputs=sinkhorn.SinkhornInputs,
    backward_inputs=sinkhorn.SinkhornBackwardInputs,
    empty_outputs=sinkhorn.empty_outputs,
    empty_grads=sinkhorn.empty_grads,
    needs=False,
)
MHC_POST = Operator(
    name="mhc_post",
    tensors=("Tensor x", "Tensor y", "Tensor h_post", "Tensor h_res"),
    token_dims=(2, 1, 1, 2),
    options=(),
    result_dims=(2,),
    grads=("Tensor grad_out",),
    inputs=mhc_post.MhcPostInputs,
    backward_inputs=mhc_post.MhcPostBackwardInputs,
    empty_outputs=mhc_post.empty_outputs,
    empty_grads=mhc_post.empty_grads,
)
MHC_POST_PRE = Operator(
    name="mhc_post_pre",
    tensors=(*MHC_POST.tensors, *_MAPPING[1:]),
    token_dims=(*MHC_POST.token_dims, *_MAPPING_DIMS[1:]),
    options=MHC_PRE.options,
    result_dims=(1, 1, 2, 2, 1, 0),
    saved=("Tensor out", *_SAVED),
    grads=("Tensor grad_h_in", "Tensor grad_next_h_post", "Tensor grad_next_h_res", "Tensor grad_out"),
    inputs=mhc_post_pre.MhcPostPreInputs,
    backward_inputs=mhc_post_pre.MhcPostPreBackwardInputs,
    empty_outputs=mhc_post_pre.empty_outputs,
    empty_grads=mhc_post_pre.empty_grads,
)
MHC_HEAD = Operator(
    name="mhc_head",
    tensors=_MAPPING,
    token_dims=_MAPPING_DIMS,
    options=(_NORM_EPS, _PRE_EPS, _PRECISION),
    result_dims=(1, 1, 0),
    saved=_SAVED,
    grads=("Tensor grad_out",),
    inputs=mhc_head.MhcHeadInputs,
    backward_inputs=mhc_head.MhcHeadBackwardInputs,
    empty_outputs=mhc_head.empty_outputs,
    empty_grads=mhc_head.empty_grads,
)
MHC_READ = Operator(
    name="mhc_read",
    tensors=("Tensor x", "Tensor pre"),
    token_dims=(2, 1),
    options=(),
    result_dims=(1,),
    grads=("Tensor grad_h_in",),
    inputs=mhc_read.MhcReadInputs,
    backward_inputs=mhc_read.MhcReadBackwardInputs,
    empty_outputs=mhc_read.empty_outputs,
    empty_grads=mhc_read.empty_grads,
)
MHC_COEFFICIENTS = Operator(
    name="mhc_coefficients",
    tensors=_MAPPING,
    token_dims=_MAPPING_DIMS,
    options=MHC_PRE.options,
    result_dims=(1, 1, 1, 1, 0),
    saved=_SAVED,
    grads=("Tensor grad_h_pre", "Tensor grad_h_post", "Tensor grad_logits"),
    inputs=mhc_coefficients.MhcCoefficientsInputs,
    backward_inputs=mhc_coefficients.MhcCoefficientsBackwardInputs,
    empty_outputs=mhc_coefficients.empty_outputs,
    empty_grads=mhc_coefficients.empty_grads,
)
MHC_SINGLE_PASS = Operator(
    name="mhc_single_pass",
    tensors=(*MHC_POST.tensors, "Tensor pre", *_MAPPING[1:], "Tensor norm_weight"),
    token_dims=(*MHC_POST.token_dims, 1, *_MAPPING_DIMS[1:], None),
    options=MHC_PRE.options,
    result_dims=(1, 1, 1, 1, 2, 1, 0, 1, 0),
    saved=("Tensor out", "Tensor read", "Tensor s", *_SAVED),
    grads=(
        "Tensor grad_h_in",
        "Tensor grad_next_h_pre",
        "Tensor grad_next_h_post",
        "Tensor grad_next_logits",
        "Tensor grad_out",
    ),
    inputs=mhc_single_pass.MhcSinglePassInputs,
    backward_inputs=mhc_single_pass.MhcSinglePassBackwardInputs,
    empty_outputs=mhc_single_pass.empty_outputs,
    empty_grads=mhc_single_pass.empty_grads,
)
MHC_SINGLE_PASS_FP8 = Operator(
    name="mhc_single_pass_fp8",
    tensors=MHC_SINGLE_PASS.tensors,
    token_dims=MHC_SINGLE_PASS.token_dims,
    options=(*MHC_SINGLE_PASS.options, "bool power_of_two_scales"),
    result_dims=(1, *MHC_SINGLE_PASS.result_dims),
    saved=MHC_SINGLE_PASS.saved[1:],
    inputs=mhc_single_pass_fp8.MhcSinglePassFp8Inputs,
    empty_outputs=mhc_single_pass_fp8.empty_outputs,
)
EXPAND = Operator(
    name="expand",
    tensors=("Tensor x",),
    token_dims=(1,),
    options=("int streams",),
    result_dims=(2,),
    grads=("Tensor grad_out",),
    inputs=expand.ExpandInputs,
    backward_inputs=expand.ExpandBackwardInputs,
    empty_outputs=expand.empty_outputs,
    empty_grads=expand.empty_grads,
    needs=False,
    keeps_inputs=False,
)
OPERATORS = (
    MHC_PRE,
    MHC_PRE_NORM,
    MHC_PRE_NORM_FP8,
    SINKHORN,
    MHC_POST,
    MHC_POST_PRE,
    MHC_HEAD,
    MHC_READ,
    MHC_COEFFICIENTS,
    MHC_SINGLE_PASS,
    MHC_SINGLE_PASS_FP8,
    EXPAND,
)
