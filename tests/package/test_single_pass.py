"""The single-pass form: its parts against equations that are written here once more, and the stack."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import mhc
from mhc.backends import default_backend, load, operators_of

N, HIDDEN, TOKENS = 4, 8, 5


def layers(count=4, mixer="sinkhorn", **options):
    torch.manual_seed(3)
    made = [
        mhc.SinglePassConnection(nn.Linear(HIDDEN, HIDDEN), N, HIDDEN, mixer=mixer, gate=0.5, **options)
        for _ in range(count)
    ]
    for one in made:
        nn.init.normal_(one.norm_weight, mean=1.0, std=0.3)
    return made


def in_float64(stack, x, names):
    """Compute a stack by the equations of DeepSeek-V4.1 in float64; return the result and the gradients by name."""
    values = {name: value.detach().double().requires_grad_() for name, value in stack.named_parameters()}
    x = x.detach().double().requires_grad_()
    streams = x.unsqueeze(-2).expand(*x.shape[:-1], N, HIDDEN)
    pre = torch.zeros(*x.shape[:-1], N, dtype=torch.float64)
    pre[..., 0] = 1
    for place in range(len(stack)):
        own = {name.split(".", 1)[1]: value for name, value in values.items() if name.startswith(f"{place}.")}
        v = streams.flatten(-2)
        r = torch.rsqrt(v.square().mean(-1, keepdim=True) + 1e-6)
        m = (v * own["gamma"].flatten()) @ own["phi"].T * r
        z = own["alpha"].repeat_interleave(torch.tensor([N, N, N * N])) * m + own["bias"]
        read = (pre.unsqueeze(-1) * streams).sum(-2)
        read = own["norm_weight"] * read * torch.rsqrt(read.square().mean(-1, keepdim=True) + 1e-6)
        y = read @ own["layer.weight"].T + own["layer.bias"]
        matrix = z[..., 2 * N :].exp().unflatten(-1, (N, N))
        for _ in range(20):
            matrix = matrix / matrix.sum(-2, keepdim=True)
            matrix = matrix / matrix.sum(-1, keepdim=True)
        streams = matrix @ streams + (2 * torch.sigmoid(z[..., N : 2 * N])).unsqueeze(-1) * y.unsqueeze(-2)
        pre = torch.sigmoid(z[..., :N]) + 1e-6
    out = (pre.unsqueeze(-1) * streams).sum(-2)
    grads = torch.autograd.grad(out.square().sum(), [x, *(values[name] for name in names)], allow_unused=True)
    return out, dict(zip(["x", *names], grads, strict=True))


@pytest.mark.parametrize("lead", [(TOKENS,), (2, 3), ()])
def test_a_stack_gives_what_the_equations_of_the_model_give(lead):
    stack = mhc.SinglePassStack(layers())
    x = torch.randn(*lead, HIDDEN, requires_grad=True)
    out = stack(x)
    out.square().sum().backward()
    grads = {"x": x.grad, **{name: value.grad for name, value in stack.named_parameters()}}
    expected, wide = in_float64(stack, x, [name for name in grads if name != "x"])
    assert (out.double() - expected).abs().max() <= 1e-5 * expected.abs().max()
    for name, grad in grads.items():
        # What the last layer's own read would take is used by nobody but the collapse; every tensor has a gradient.
        assert (grad.double() - wide[name]).abs().max() <= 2e-5 * wide[name].abs().max(), name


def test_one_layer_reads_the_stream_itself():
    [one] = layers(1)
    seen = []
    one.layer.register_forward_hook(lambda _, given, __: seen.append(given[0]))
    x = torch.randn(TOKENS, HIDDEN)
    mhc.SinglePassStack([one])(x)
    assert torch.allclose(seen[0], nn.functional.rms_norm(x, (HIDDEN,), one.norm_weight, 1e-6), atol=1e-6)


@pytest.mark.parametrize("mixer", ["permutations", "kronecker", "identity"])
def test_a_stack_takes_other_mixers(mixer):
    stack = mhc.SinglePassStack(layers(mixer=mixer))
    stack(torch.randn(TOKENS, HIDDEN)).sum().backward()
    assert all(value.grad is not None for value in stack.parameters())


def test_the_operator_gives_what_its_parts_give_in_turn():
    one, two = layers(2)
    x, y = torch.randn(TOKENS, N, HIDDEN), torch.randn(TOKENS, HIDDEN)
    made = mhc.mhc_coefficients(x, one.phi, one.alpha, one.bias, one.gamma)
    matrix = one.mixed(made.logits)
    mapping = (two.phi, two.alpha, two.bias, two.gamma)
    out, h_in, following = mhc.mhc_single_pass(x, y, made.h_post, matrix, made.h_pre, *mapping, two.norm_weight)
    streams = mhc.mhc_post(x, y, made.h_post, matrix)
    assert torch.equal(out, streams)
    read = nn.functional.rms_norm(mhc.mhc_read(streams, made.h_pre), (HIDDEN,), two.norm_weight, 1e-6)
    assert torch.allclose(h_in, read, rtol=1e-6, atol=1e-6)
    assert all(torch.equal(a, b) for a, b in zip(following, mhc.mhc_coefficients(streams, *mapping), strict=True))


def test_coefficients_and_a_read_are_mhc_pre():
    [one] = layers(1)
    x = torch.randn(TOKENS, N, HIDDEN)
    mapping = (one.phi, one.alpha, one.bias, one.gamma)
    h_in, h_post, h_res = mhc.mhc_pre(x, *mapping)
    made = mhc.mhc_coefficients(x, *mapping)
    assert torch.equal(mhc.mhc_read(x, made.h_pre), h_in)
    assert torch.equal(made.h_post, h_post)
    assert torch.equal(made.logits.view_as(h_res), h_res)


def test_a_layer_alone_and_an_empty_stack_are_refused():
    with pytest.raises(TypeError, match="it is a part of a SinglePassStack"):
        layers(1)[0](torch.randn(TOKENS, N, HIDDEN))
    with pytest.raises(ValueError, match="it has no layers"):
        mhc.SinglePassStack()(torch.randn(TOKENS, HIDDEN))
    with pytest.raises(ValueError, match="it makes its h_res itself"):
        layers(1, mixer="given")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"pre": torch.ones(TOKENS, N + 1)}, r"mhc_single_pass: pre has shape \(5, 5\)"),
        ({"pre": torch.ones(TOKENS, N, dtype=torch.float64)}, "pre is torch.float64"),
        ({"norm_weight": torch.ones(HIDDEN + 1)}, r"norm_weight has shape \(9,\)"),
        ({"phi": torch.ones(2 * N - 1, N * HIDDEN)}, r"phi has shape \(7, 32\).*needs \(8, 32\)"),
        ({"bias": torch.ones(3)}, r"bias has shape \(3,\)"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(change, text):
    [one] = layers(1)
    values = {
        "x": torch.randn(TOKENS, N, HIDDEN),
        "y": torch.randn(TOKENS, HIDDEN),
        "h_post": torch.rand(TOKENS, N),
        "h_res": torch.rand(TOKENS, N, N),
        "pre": torch.rand(TOKENS, N),
        "phi": one.phi,
        "alpha": one.alpha,
        "bias": one.bias,
        "gamma": one.gamma,
        "norm_weight": one.norm_weight,
    }
    with pytest.raises((ValueError, TypeError), match=text):
        mhc.mhc_single_pass(**(values | change))


def test_parameters_in_bf16_have_gradients_in_bf16():
    stack = mhc.SinglePassStack(layers(2, dtype=torch.bfloat16))
    for one in stack:
        one.layer.to(torch.bfloat16)
    stack(torch.randn(TOKENS, HIDDEN, dtype=torch.bfloat16)).sum().backward()
    assert {value.grad.dtype for value in stack.parameters()} == {torch.bfloat16}


def test_the_weights_of_a_released_model_become_a_stack():
    config = {"model_type": "deepseek_v41", "rms_norm_eps": 1e-6, "hc_eps": 1e-6, "hc_sinkhorn_iters": 20}
    options = mhc.convert.deepseek_options(config, single_pass=True)
    tensors, made = {}, layers(2, form="deepseek", gamma=False)
    for place, one in enumerate(made):
        tensors |= mhc.convert.to_deepseek(mhc.convert.ConnectionWeights.of_module(one), f"layers.{place}.hc_ffn_")
    converted = mhc.convert.model_from_deepseek(tensors, **options)
    again = [
        weights.single_pass(one.layer, one.norm_weight) for weights, one in zip(converted.values(), made, strict=True)
    ]
    x = torch.randn(TOKENS, HIDDEN)
    assert torch.equal(mhc.SinglePassStack(again)(x), mhc.SinglePassStack(made)(x))
    with pytest.raises(ValueError, match="say single_pass=True"):
        mhc.convert.deepseek_options(config)
    with pytest.raises(ValueError, match="single_pass is for deepseek_v41"):
        mhc.convert.deepseek_options(config | {"model_type": "deepseek_v4"}, single_pass=True)
    with pytest.raises(ValueError, match=r"norm_weight has shape \(3,\)"):
        converted["layers.0.hc_ffn_"].single_pass(made[0].layer, torch.ones(3))


def test_a_backend_without_the_operators_says_so():
    assert ("mhc_single_pass", "backward") in operators_of(default_backend(torch.device("cpu")))
    with pytest.raises(LookupError, match="does not have 'mhc_reads' forward"):
        load("reference", "mhc_reads")
