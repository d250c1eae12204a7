"""A norm behind a read: as an argument of ``mhc_pre``, and as an option of a layer."""

from __future__ import annotations

import copy
import importlib.util

import pytest
import torch
from torch import nn

import mhc
from mhc.backends import load
from mhc.ops.mhc_pre_norm import MhcPreNormSpec
from spy import HIDDEN, TOKENS, N, mapping, tensor


class _Behind(nn.Module):
    """A norm and a layer, apart from the read."""

    def __init__(self, layer, eps):
        super().__init__()
        self.norm, self.layer = nn.RMSNorm(HIDDEN, eps), layer

    def forward(self, x):
        return self.layer(self.norm(x))


@pytest.mark.parametrize("stack", [lambda layers: nn.Sequential(*layers), mhc.HyperStack])
@pytest.mark.parametrize("mixer", ["sinkhorn", "kronecker", "permutations"])
def test_a_layer_with_a_norm_is_a_layer_behind_a_norm(mixer, stack):
    torch.manual_seed(0)
    sizes, options = (4, HIDDEN), {"mixer": mixer, "norm_eps": 1e-3}  # of four streams there are 24 permutations
    own = [mhc.HyperConnection(nn.Linear(HIDDEN, HIDDEN), *sizes, gate=0.5, norm=True, **options) for _ in range(2)]
    apart = [mhc.HyperConnection(_Behind(copy.deepcopy(one.layer), 1e-3), *sizes, **options) for one in own]
    for one, other in zip(own, apart, strict=True):
        nn.init.uniform_(one.norm_weight, 0.5, 1.5)
        other.load_state_dict(one.state_dict(), strict=False)
        other.layer.norm.weight.data.copy_(one.norm_weight)
    x = tensor(TOKENS, *sizes)
    results = [stack(each)(x) for each in (own, apart)]
    torch.testing.assert_close(*results)
    for result in results:
        result.square().sum().backward()
    for one, other in zip(own, apart, strict=True):
        torch.testing.assert_close(one.norm_weight.grad, other.layer.norm.weight.grad)
        torch.testing.assert_close(one.phi.grad, other.phi.grad)
    with torch.no_grad():
        torch.testing.assert_close(*[stack(each)(x) for each in (own, apart)])


def test_a_norm_is_seen_in_the_text_of_a_layer_and_begins_with_ones():
    layer = mhc.HyperConnection(nn.Identity(), N, HIDDEN, norm=True, dtype=torch.bfloat16)
    assert "norm=True" in repr(layer)
    assert torch.equal(layer.norm_weight, torch.ones(HIDDEN, dtype=torch.bfloat16))
    assert "norm" not in repr(mhc.HyperConnection(nn.Identity(), N, HIDDEN))


def test_its_activations_are_made_again():
    layers = nn.Sequential(*(mhc.HyperConnection(nn.Linear(HIDDEN, HIDDEN), N, HIDDEN, norm=True) for _ in range(2)))
    results = []
    for again in (False, True):
        x, other = tensor(TOKENS, N, HIDDEN), copy.deepcopy(layers)
        if again:
            with mhc.recomputation():
                out = other(x)
        else:
            out = other(x)
        out.square().sum().backward()
        results.append([out, x.grad, *(parameter.grad for parameter in other.parameters())])
    assert all(map(torch.equal, *results))


def test_a_weight_that_does_not_fit_is_refused():
    x, parameters = tensor(TOKENS, N, HIDDEN), mapping(N * (N + 2), 3)
    with pytest.raises(ValueError, match=r"mhc_pre_norm: norm_weight has shape \(3,\)"):
        mhc.mhc_pre(x, *parameters, torch.ones(3))
    with pytest.raises(TypeError, match=r"mhc_pre_norm: norm_weight is torch\.float64"):
        mhc.mhc_pre(x, *parameters, torch.ones(HIDDEN, dtype=torch.float64))


def test_a_weight_in_bf16_is_taken_and_has_its_gradient_in_bf16():
    weight = tensor(HIDDEN, dtype=torch.bfloat16)
    mhc.mhc_pre(tensor(TOKENS, N, HIDDEN), *mapping(N * (N + 2), 3), weight).h_in.sum().backward()
    assert weight.grad.dtype == torch.bfloat16


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="there is no Triton")
@pytest.mark.parametrize(("name", "more"), [("few", 0), ("overlapped", 0), ("bf16x3", 1)])
def test_few_tokens_have_no_launch_more_for_the_norm(name, more):
    from mhc.backends.triton.ahead import gpu_target

    spec, target = MhcPreNormSpec(4, 1280, torch.bfloat16, True), gpu_target("sm_90")
    kernels = [load("triton", op).variants[name] for op in ("mhc_pre", "mhc_pre_norm")]
    plain, normed = (len(kernel.sources(spec, kernel.configure(spec, target))) for kernel in kernels)
    assert normed == plain + more
