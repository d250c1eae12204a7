"""A norm behind a read: as an argument of ``mhc_pre``, and as an option of a layer."""

from __future__ import annotations

import copy
import importlib.util
import os

import pytest
import torch
from torch import nn

import mhc
import properties
from mhc.backends import load
from mhc.backends.reference.read import quantised
from mhc.ops.mhc_pre_norm import MhcPreNormInputs, MhcPreNormSpec, empty_outputs
from spy import HIDDEN, TOKENS, N, mapping, tensor

TRITON = importlib.util.find_spec("triton") is not None
BACKENDS = ["reference", "cpp", *(["triton"] if TRITON and os.environ.get("TRITON_INTERPRET") == "1" else [])]


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


def given(dtype=torch.float32):
    """Return tensors of a width that fp8 takes, which need no gradients."""
    x, parameters = tensor(TOKENS, N, 256, dtype=dtype), mapping(N * (N + 2), 3, hidden=256)
    return [each.detach() for each in (x, *parameters, tensor(256))]


@pytest.mark.parametrize("powers", [False, True])
@pytest.mark.parametrize(
    ("backend", "dtype"),  # the interpreter truncates where hardware rounds to bf16
    [*((one, torch.float32) for one in BACKENDS), ("reference", torch.bfloat16), ("cpp", torch.bfloat16)],
)
def test_fp8_is_the_normed_read_of_its_backend_quantised(backend, dtype, powers):
    tensors = given(dtype)
    h_in, *others = mhc.mhc_pre(*tensors, norm_eps=1e-3, backend=backend)
    *in_fp8, h_post, h_res = mhc.mhc_pre_fp8(*tensors, norm_eps=1e-3, power_of_two_scales=powers, backend=backend)
    for own, other in zip((*in_fp8, h_post, h_res), (*quantised(h_in.float(), powers), *others), strict=True):
        assert own.dtype == other.dtype
        assert torch.equal(own.float(), other.float())


def test_fp8_takes_groups_of_128_and_no_gradients():
    x, *parameters = given()
    with pytest.raises(ValueError, match="mhc_pre_norm_fp8: hidden is 4; it needs a multiple of 128"):
        mhc.mhc_pre_fp8(tensor(TOKENS, N, HIDDEN), *mapping(N * (N + 2), 3), tensor(HIDDEN))
    with pytest.raises(RuntimeError, match=r"mhc_pre_norm_fp8: a tensor requires a gradient.*use mhc_pre for training"):
        mhc.mhc_pre_fp8(x.requires_grad_(), *parameters)
    options = (1e-6, 1e-6, 2.0, "fp32", False, "reference")
    torch.library.opcheck(torch.ops.mhc.mhc_pre_norm_fp8.default, (x.detach(), *parameters, *options))


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


@pytest.mark.nightly  # a C++ compiler takes ten seconds
def test_inductor_normalises_what_is_rounded():
    inputs = MhcPreNormInputs(*given(torch.bfloat16))
    out = empty_outputs(inputs)
    load("inductor", "mhc_pre_norm").run(inputs, out)
    properties._read_is_normalised(None, inputs, out)


@pytest.mark.parametrize(("name", "more"), [("few", 0), ("overlapped", 0), ("bf16x3", 1)])
def test_few_tokens_have_no_launch_more_for_the_norm(name, more):
    pytest.importorskip("triton")
    from mhc.backends.triton.ahead import gpu_target

    spec, target = MhcPreNormSpec(4, 1280, torch.bfloat16, True), gpu_target("sm_90")
    kernels = [load("triton", op).variants[name] for op in ("mhc_pre", "mhc_pre_norm")]
    plain, normed = (len(kernel.sources(spec, kernel.configure(spec, target))) for kernel in kernels)
    assert normed == plain + more
