"""The launches of ``mhc_pre``, ``mhc_head`` and their gradients, with the scratch between them."""

from __future__ import annotations

from typing import NamedTuple

import torch

from mhc.backends.cpp.compilers import THREADS
from mhc.backends.cpp.devices import F32, I32, I64, Launch
from mhc.backends.cpp.kernel import cdiv, whole
from mhc.backends.reading import BackwardInputs, Grads, Inputs, Outputs, Spec, incoming, results
from mhc.ops.mhc_head import MhcHeadSpec

# As in mhc_pre.cu: the tokens of a block, the rows of phi at a time, the tokens of a stage, the columns of a thread.
TOKENS, ROWS, STAGE, COLUMNS = 4, 8, 16, 4

# The chunks of tokens that are summed apart, at most: their sums take up to this many bytes, but there are a few.
_MOST_CHUNKS, _FEW_CHUNKS, _CHUNK_BYTES = 32, 4, 256 << 20


class _Factors(NamedTuple):
    """Hold what the gradients need of each token: the outputs of ``mhc_pre_factors``."""

    dz: torch.Tensor
    f: torch.Tensor
    h_pre: torch.Tensor
    slope: torch.Tensor


def forward(inputs: Inputs, out: Outputs) -> list[Launch]:
    """Return the launch: a block has ``TOKENS`` tokens."""
    x, phi, alpha, bias, gamma = inputs[:5]
    spec, tokens = inputs.spec, x.shape[:-2].numel()
    outputs = results(inputs, out)
    options = (I64(tokens), I32(spec.hidden), I32(spec.mixes), F32(spec.norm_eps), *_constants(spec))
    arguments = (x, phi, alpha, bias, gamma, *outputs, *options, whole(spec.hidden, x, phi, gamma, outputs[1]))
    return [Launch("mhc_pre_forward", (cdiv(tokens, TOKENS), 1, 1), arguments)]


def backward(inputs: BackwardInputs, out: Grads) -> list[Launch]:
    """Return the launches for the gradients that are asked for; each has the same bits whatever else is asked for."""
    x, phi, alpha, bias, gamma, m, r = inputs[:7]
    spec, tokens = inputs.spec, x.shape[:-2].numel()
    grads = incoming(inputs)
    sizes = (tokens * spec.mixes, tokens * spec.mixes, tokens * spec.streams, tokens)
    factors = _Factors(*(torch.empty(size, dtype=torch.float32, device=x.device) for size in sizes))
    last = (I32(spec.hidden), I32(spec.mixes), *_constants(spec), whole(spec.hidden, x, grads.grad_h_in))
    launches = [
        Launch("mhc_pre_factors", (tokens, 1, 1), (x, alpha, bias, m, r, *grads, *factors, *last), scratch=factors)
    ]
    if out.x is not None:
        sizes = (I64(tokens), I32(spec.hidden), I32(spec.mixes), whole(spec.hidden, x, phi, gamma, out.x))
        added = getattr(inputs, "added", None)
        arguments = (x, phi, gamma, grads.grad_h_in, added, *factors[1:], out.x, *sizes)
        grid = (cdiv(tokens, TOKENS), cdiv(spec.width, COLUMNS * THREADS), 1)
        launches.append(Launch("mhc_pre_grad_x", grid, arguments))
    if out.phi is not None or out.gamma is not None:
        launches += _products(inputs, out, factors.f)
    if out.alpha is not None or out.bias is not None:
        arguments = (factors.dz, m, out.alpha, out.bias, I64(tokens), I32(spec.mixes))
        launches.append(Launch("mhc_pre_grad_alpha_bias", (spec.mixes + alpha.shape[0], 1, 1), arguments))
    return launches


def chunks_of(tokens: int, spec: Spec) -> tuple[int, int]:
    """Return the tokens of a chunk, a multiple of ``STAGE``, and the number of chunks."""
    most = max(_FEW_CHUNKS, min(_MOST_CHUNKS, _CHUNK_BYTES // (4 * spec.mixes * spec.width)))
    chunk = cdiv(cdiv(tokens, min(most, cdiv(tokens, STAGE))), STAGE) * STAGE
    return chunk, cdiv(tokens, chunk)


def _products(inputs: BackwardInputs, out: Grads, f: torch.Tensor) -> list[Launch]:
    """Return the launches for the gradients of phi and gamma: sums over the tokens of a chunk, then over the chunks."""
    x, phi, gamma, spec = inputs.x, inputs.phi, inputs.gamma, inputs.spec
    tokens = x.shape[:-2].numel()
    chunk, chunks = chunks_of(tokens, spec)
    sums = torch.empty(chunks * spec.mixes * spec.width, dtype=torch.float32, device=x.device)
    hidden, mixes = I32(spec.hidden), I32(spec.mixes)
    arguments = (x, f, sums, I64(tokens), I64(chunk), hidden, mixes, whole(spec.hidden, x, sums))
    grid = (cdiv(spec.width, COLUMNS * THREADS), chunks, cdiv(spec.mixes, ROWS))
    last = (sums, phi, gamma, out.phi, out.gamma, I32(chunks), hidden, mixes)
    return [
        Launch("mhc_pre_sums", grid, arguments, scratch=(sums,)),
        Launch("mhc_pre_grad_phi_gamma", (cdiv(spec.width, THREADS), 1, 1), last),
    ]


def _constants(spec: Spec) -> tuple[F32, F32]:
    """Return the eps of h_pre, and the constant of h_post, which ``mhc_head`` does not use."""
    return F32(spec.pre_eps), F32(0.0 if isinstance(spec, MhcHeadSpec) else spec.post_scale)
