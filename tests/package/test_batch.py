"""The bits of a token are the same alone and in a batch, in the backends of which docs/kernels.md says so."""

from __future__ import annotations

import importlib.util
import os

import pytest
import torch

import mhc

INTERPRETED = importlib.util.find_spec("triton") is not None and os.environ.get("TRITON_INTERPRET") == "1"
BACKENDS = ["cpp", *(["triton"] if INTERPRETED else [])]
TOKENS, N, HIDDEN = 9, 4, 24


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape) + shape[-1]))


def calls(backend, tokens):
    """Return what each operator gives for some tokens, and the gradients of what goes with the tokens."""
    mapping = (drawn(24, N * HIDDEN) / 10, drawn(3), drawn(24), drawn(N, HIDDEN))
    x, y, post = drawn(TOKENS, N, HIDDEN)[tokens], drawn(TOKENS, HIDDEN)[tokens], drawn(TOKENS, N)[tokens]
    res = drawn(TOKENS, N, N)[tokens]
    norm_weight = drawn(HIDDEN)
    leaves = [tensor.clone().requires_grad_() for tensor in (x, y, post, res)]
    x, y, post, res = leaves
    made = {
        "mhc_pre": mhc.mhc_pre(x, *mapping, backend=backend),
        "mhc_pre_norm": mhc.mhc_pre(x, *mapping, norm_weight, backend=backend),
        "mhc_coefficients": mhc.mhc_coefficients(x, *mapping, backend=backend),
        "mhc_read": (mhc.mhc_read(x, post, backend=backend),),
        "mhc_post": (mhc.mhc_post(x, y, post, res, backend=backend),),
        "sinkhorn": (mhc.sinkhorn(res, backend=backend),),
    }
    out, h_in, coefficients = mhc.mhc_single_pass(x, y, post, res, post, *mapping, norm_weight, backend=backend)
    made["mhc_single_pass"] = (out, h_in, *coefficients)
    results = {}
    for name, outputs in made.items():
        incoming = [drawn(TOKENS, *output.shape[1:])[tokens] for output in outputs]
        grads = torch.autograd.grad(outputs, leaves, incoming, allow_unused=True)
        results[name] = [tensor.detach() for tensor in (*outputs, *grads) if tensor is not None]
    return results


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_token_alone_has_the_bits_that_it_has_in_a_batch(backend):
    whole = calls(backend, slice(None))
    for first, last in ((0, 1), (8, 9), (3, 8)):
        for name, parts in calls(backend, slice(first, last)).items():
            for part, batch in zip(parts, whole[name], strict=True):
                assert torch.equal(part, batch[first:last]), name
