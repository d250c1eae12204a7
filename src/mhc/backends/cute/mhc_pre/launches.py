"""The launches of ``mhc_pre``, ``mhc_head`` and their gradients, with the scratch between them."""

from __future__ import annotations

import torch

from mhc.backends.cute.compiler import Program
from mhc.backends.cute.driver import Launch
from mhc.backends.cute.kernel import cdiv
from mhc.backends.cute.mhc_pre import backward as gradients
from mhc.backends.cute.mhc_pre.forward import TOKENS, mhc_pre_forward
from mhc.backends.cute.sizes import THREADS, Sizes, sizes_of
from mhc.ops.mhc_head import MhcHeadBackwardInputs, MhcHeadGrads, MhcHeadInputs, MhcHeadOutputs, MhcHeadSpec
from mhc.ops.mhc_pre import MhcPreBackwardInputs, MhcPreGrads, MhcPreInputs, MhcPreOutputs, MhcPreSpec

# The chunks of tokens that are summed apart, at most: their sums take up to this many bytes, but there are a few.
_MOST_CHUNKS, _FEW_CHUNKS, _CHUNK_BYTES = 32, 4, 256 << 20

_F32 = torch.float32
_Spec = MhcPreSpec | MhcHeadSpec
_BackwardInputs = MhcPreBackwardInputs | MhcHeadBackwardInputs
_Grads = MhcPreGrads | MhcHeadGrads


def forward_programs(spec: _Spec) -> tuple[Program, ...]:
    """Return the only kernel of the forward."""
    return (_forward_program(spec, sizes_of(spec)),)


def backward_programs(spec: _Spec) -> tuple[Program, ...]:
    """Return all kernels of the backward."""
    sizes = sizes_of(spec)
    return tuple(_gradient(name, spec, sizes) for name in _PARAMETERS)


def forward(inputs: MhcPreInputs | MhcHeadInputs, out: MhcPreOutputs | MhcHeadOutputs) -> list[Launch]:
    """Return the launch: a block has ``TOKENS`` tokens."""
    x, phi, alpha, bias, gamma = inputs[:5]
    tokens = x.shape[:-2].numel()
    outputs = out if isinstance(out, MhcPreOutputs) else (out.out, None, None, out.m, out.r)
    tensors = (x, phi, alpha, bias, gamma, *outputs)
    program = _forward_program(inputs.spec, sizes_of(inputs.spec, tensors))
    return [Launch(program, (cdiv(tokens, TOKENS), 1, 1), (*tensors, tokens))]


def backward(inputs: _BackwardInputs, out: _Grads) -> list[Launch]:
    """Return the launches for the gradients that are asked for; each has the same bits whatever else is asked for."""
    x, phi, alpha, bias, gamma, m, r = inputs[:7]
    spec, tokens = inputs.spec, x.shape[:-2].numel()
    grads = inputs[7:10] if isinstance(inputs, MhcPreBackwardInputs) else (inputs.grad_out, None, None)
    sizes = sizes_of(spec, (x, phi, gamma, grads[0], out.x))
    dz, f, h_pre, slope = (
        torch.empty(tokens * count, dtype=_F32, device=x.device) for count in (spec.mixes, spec.mixes, spec.streams, 1)
    )

    def launch(name: str, grid: tuple[int, int, int], *arguments: torch.Tensor | int | None) -> Launch:
        return Launch(_gradient(name, spec, sizes), grid, arguments)

    launches = [launch("factors", (tokens, 1, 1), x, alpha, bias, m, r, *grads, dz, f, h_pre, slope)]
    packs = spec.width // sizes.vector
    if out.x is not None:
        grid = (cdiv(tokens, TOKENS), cdiv(packs, THREADS), 1)
        launches.append(launch("grad_x", grid, x, phi, gamma, grads[0], f, h_pre, slope, out.x, tokens))
    if out.phi is not None or out.gamma is not None:
        chunk, chunks = chunks_of(tokens, spec)
        sums = torch.empty(chunks * spec.mixes * spec.width, dtype=_F32, device=x.device)
        grid = (cdiv(packs, THREADS), chunks, cdiv(spec.mixes, gradients.ROWS))
        launches.append(launch("sums", grid, x, f, sums, tokens, chunk))
        columns = (cdiv(spec.width, THREADS), 1, 1)
        to_gamma = torch.empty(spec.width, dtype=_F32, device=x.device) if out.gamma is None else out.gamma
        to_phi = torch.empty_like(phi) if out.phi is None else out.phi
        launches.append(launch("grad_phi_gamma", columns, sums, phi, gamma, to_phi, to_gamma, chunks))
    if out.alpha is not None or out.bias is not None:
        to_alpha = torch.empty_like(alpha) if out.alpha is None else out.alpha
        to_bias = torch.empty_like(bias) if out.bias is None else out.bias
        grid = (spec.mixes + alpha.shape[0], 1, 1)
        launches.append(launch("grad_alpha_bias", grid, dz, m, to_alpha, to_bias, tokens))
    return launches


def chunks_of(tokens: int, spec: _Spec) -> tuple[int, int]:
    """Return the tokens of a chunk, a multiple of ``STAGE``, and the number of chunks."""
    stage = gradients.STAGE
    most = max(_FEW_CHUNKS, min(_MOST_CHUNKS, _CHUNK_BYTES // (4 * spec.mixes * spec.width)))
    chunk = cdiv(cdiv(tokens, min(most, cdiv(tokens, stage))), stage) * stage
    return chunk, cdiv(tokens, chunk)


def _forward_program(spec: _Spec, sizes: Sizes) -> Program:
    dtype = spec.dtype
    return Program(mhc_pre_forward, (dtype, *[_F32] * 4, dtype, *[_F32] * 4, None), sizes)


# Of each kernel of the backward its parameters: "e" is a tensor in the dtype of x, "f" one in fp32, "t" a number.
_PARAMETERS = {
    "factors": "effffeffffff",
    "grad_x": "effefffet",
    "sums": "efftt",
    "grad_phi_gamma": "ffffft",
    "grad_alpha_bias": "fffft",
}


def _gradient(name: str, spec: _Spec, sizes: Sizes) -> Program:
    kinds = {"e": spec.dtype, "f": _F32, "t": None}
    kernel = getattr(gradients, f"mhc_pre_{name}")
    return Program(kernel, tuple(kinds[letter] for letter in _PARAMETERS[name]), sizes)
