"""Mixers: what makes the residual matrix, and a layer with each of them."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import nn

import mhc
from mhc import mixers

MADE = ("permutations", "kronecker", "identity")
HIDDEN = 6


def logits(mixer, streams, *lead, dtype=torch.float64):
    return torch.randn(*lead, mixers.logits_of(mixer, streams), dtype=dtype, generator=torch.Generator().manual_seed(1))


def layer(mixer, streams=4, **options):
    torch.manual_seed(0)
    return mhc.HyperConnection(nn.Linear(HIDDEN, HIDDEN), streams, HIDDEN, mixer=mixer, gate=0.5, **options)


def given(mixer, *lead, streams=4):
    return {"h_res": torch.rand(*lead, streams, streams)} if mixer == "given" else {}


@pytest.mark.parametrize("streams", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("mixer", MADE)
def test_a_matrix_is_doubly_stochastic_without_iterations(mixer, streams):
    matrix = mixers.matrix_of(mixer, 30 * logits(mixer, streams, 50), streams)
    assert matrix.shape == (50, streams, streams)
    assert (matrix >= 0).all()
    for dim in (-1, -2):
        assert (matrix.sum(dim) - 1).abs().max() < 1e-14


def test_permutations_are_the_sum_over_all_of_them_with_the_identity_first():
    values = logits("permutations", 3)
    expected = torch.zeros(3, 3, dtype=torch.float64)
    for weight, order in zip(torch.softmax(values, 0), itertools.permutations(range(3)), strict=True):
        for row, column in enumerate(order):
            expected[row, column] += weight
    assert torch.equal(mixers.matrix_of("permutations", values, 3), expected)
    only = torch.full((24,), -math.inf)
    only[0] = 0
    assert torch.equal(mixers.matrix_of("permutations", only, 4), torch.eye(4))


@pytest.mark.parametrize(("streams", "factors"), [(4, [2, 2]), (6, [2, 3]), (12, [2, 2, 3])])
def test_kronecker_is_the_product_of_permutations_of_the_factors(streams, factors):
    values = logits("kronecker", streams)
    parts = values.split([math.factorial(factor) for factor in factors])
    expected = torch.ones(1, 1, dtype=torch.float64)
    for part, factor in zip(parts, factors, strict=True):
        expected = torch.kron(expected, mixers.matrix_of("permutations", part, factor))
    assert (mixers.matrix_of("kronecker", values, streams) - expected).abs().max() < 1e-15


@pytest.mark.parametrize(("mixer", "streams"), [("permutations", 3), ("permutations", 4), ("kronecker", 6)])
def test_the_gradient_of_a_matrix_is_that_of_float64_differences(mixer, streams):
    values = logits(mixer, streams, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda own: mixers.matrix_of(mixer, own, streams), values)


@pytest.mark.parametrize(
    ("mixer", "streams", "text"),
    [
        ("sinkhorns", 4, "it needs one of sinkhorn, permutations, kronecker, identity, given"),
        ("permutations", 7, "7! permutations"),
        ("kronecker", 14, "7! permutations for 14 streams"),
    ],
)
def test_a_mixer_that_there_is_not_is_refused(mixer, streams, text):
    with pytest.raises(ValueError, match=text):
        mhc.HyperConnection(nn.Identity(), streams, 8, mixer=mixer)


def test_another_number_of_logits_and_options_of_sinkhorn_are_refused():
    with pytest.raises(ValueError, match="takes 4 logits, and there are 5"):
        mixers.matrix_of("kronecker", torch.zeros(5), 4)
    with pytest.raises(ValueError, match="no iterations of Sinkhorn, and there is form='deepseek'"):
        layer("kronecker", form="deepseek")


@pytest.mark.parametrize("mixer", mixers.MIXERS)
@pytest.mark.parametrize("streams", [2, 3, 4])
def test_a_layer_keeps_the_streams_apart_at_its_initialisation(mixer, streams):
    module = mhc.HyperConnection(nn.Linear(HIDDEN, HIDDEN), streams, HIDDEN, mixer=mixer, gate=0.0)
    x = torch.randn(5, streams, HIDDEN)
    if mixer != "given":
        assert (module.read(x).h_res - torch.eye(streams)).abs().max() < 0.02
    assert module.phi.shape[0] == module.bias.shape[0] == 2 * streams + mixers.logits_of(mixer, streams)


@pytest.mark.parametrize("mixer", mixers.MIXERS)
def test_a_layer_with_each_mixer_gives_what_its_parts_give(mixer):
    """The parts are called one by one here, the coefficients without a read."""
    module, x = layer(mixer), torch.randn(2, 3, 4, HIDDEN)
    own = given(mixer, 2, 3)
    leaves = [x, *module.parameters()]
    results = []
    for parts in (False, True):
        for leaf in leaves:
            leaf.requires_grad_().grad = None
        if parts:
            made = mhc.mhc_coefficients(x, module.phi, module.alpha, module.bias, module.gamma)
            if mixer == "given":
                h_res = own["h_res"]
            elif mixer == "sinkhorn":
                h_res = mhc.sinkhorn(made.logits.unflatten(-1, (4, 4)))
            else:
                h_res = mixers.matrix_of(mixer, made.logits, 4)
            out = mhc.mhc_post(x, module.layer(mhc.mhc_read(x, made.h_pre)), made.h_post, h_res)
        else:
            out = module(x, **own)
        out.square().sum().backward()
        results.append([out, *(leaf.grad for leaf in leaves)])
    for one, other in zip(*results, strict=True):
        assert (one - other).abs().max() <= 1e-5 * other.abs().max()


def test_the_matrix_that_is_given_has_a_gradient_and_no_other_mixer_takes_one():
    h_res = torch.rand(3, 4, 4, requires_grad=True)
    layer("given")(torch.randn(3, 4, HIDDEN), h_res=h_res).sum().backward()
    assert h_res.grad.abs().sum() > 0
    with pytest.raises(ValueError, match="h_res is for 'given', which needs one"):
        layer("given")(torch.randn(3, 4, HIDDEN))
    with pytest.raises(ValueError, match="mixer is 'identity'"):
        layer("identity").read(torch.randn(3, 4, HIDDEN), h_res)


@pytest.mark.parametrize("mixer", [mixer for mixer in mixers.MIXERS if mixer != "given"])
def test_recomputation_and_a_stack_give_the_same_bits(mixer):
    layers = [layer(mixer) for _ in range(3)]
    x = torch.randn(5, 4, HIDDEN, requires_grad=True)
    results = []
    for way in ("in turn", "stack", "recomputed"):
        x.grad = None
        out = x
        if way == "stack":
            out = mhc.HyperStack(layers)(x)
        elif way == "in turn":
            for one in layers:
                out = one(out)
        else:
            with mhc.recomputation():
                for one in layers:
                    out = one(out)
        out.square().sum().backward()
        results.append((out.detach(), x.grad.clone()))
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))


def test_recomputation_refuses_a_matrix_that_is_given():
    x = torch.randn(3, 4, HIDDEN, requires_grad=True)
    with mhc.recomputation(), pytest.raises(ValueError, match="cannot make again an h_res that is given"):
        layer("given")(x, h_res=torch.rand(3, 4, 4))


@pytest.mark.parametrize("mixer", MADE)
def test_a_layer_may_be_compiled_and_exported(mixer):
    module, x = layer(mixer), torch.randn(3, 4, HIDDEN)
    exported = torch.export.export(module, (x,)).module()
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    assert torch.equal(exported(x), module(x))
    assert torch.equal(compiled(x), module(x))


def test_a_layer_that_was_first_used_for_inference_may_be_trained():
    mixers._tables.clear()
    module, x = layer("permutations"), torch.randn(3, 4, HIDDEN)
    with torch.inference_mode():
        module(x)
    module(x).sum().backward()
    assert module.phi.grad[8:].abs().sum() > 0
