"""Gradients that are asked for, gradients of gradients, and the two ways to a kernel."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

import mhc
from mhc.backends.reference import mhc_post, mhc_pre, sinkhorn
from mhc.library import eager, execution
from spy import EQUATIONS, HIDDEN, OPS, TENSORS, TOKENS, N, Spy, arguments, call, mapping, tensor

GRADIENTS = {
    "mhc_pre": 3,
    "mhc_pre_norm": 3,
    "mhc_head": 1,
    "sinkhorn": 1,
    "mhc_post": 1,
    "mhc_post_pre": 4,
    "mhc_read": 1,
    "mhc_coefficients": 3,
    "mhc_single_pass": 5,
    "expand": 1,
}  # outputs that have one


@pytest.fixture
def spy(monkeypatch):
    """Put a spy in the place of every backend."""
    made = Spy()
    monkeypatch.setattr(execution, "load", made)
    return made


@pytest.fixture(params=["eager", "dispatcher"])
def way(request, monkeypatch):
    """Go one of the two ways to a kernel."""
    if request.param == "dispatcher":
        monkeypatch.setattr(eager, "takes", lambda tensors: False)
    return request.param


@pytest.mark.parametrize("op", ["mhc_pre", "mhc_pre_norm", "mhc_head", "mhc_post", "mhc_read", "mhc_coefficients"])
def test_only_the_gradients_that_are_asked_for_are_computed(op, spy, way):
    count = TENSORS[op]
    for asked in itertools.product([False, True], repeat=count):
        if not any(asked):
            continue
        spy.calls.clear()
        values = arguments(op)
        for value, needed in zip(values[:count], asked, strict=True):
            value.requires_grad_(needed)
        sum(output.sum() for output in call(op, *values)).backward()
        assert tuple(spy.inputs(op, "backward").needs) == asked
        assert tuple(value.grad is not None for value in values[:count]) == asked


def test_without_gamma_its_gradient_is_not_asked_for(spy, way):
    x, (phi, alpha, bias, _) = tensor(TOKENS, N, HIDDEN), mapping(N * (N + 2), 3)
    mhc.mhc_pre(x, phi, alpha, bias).h_res.sum().backward()
    assert tuple(spy.inputs("mhc_pre", "backward").needs) == (True, True, True, True, False)
    assert all(value.grad is not None for value in (x, phi, alpha, bias))


def test_without_gradients_nothing_is_kept_and_no_backward_runs(spy, way):
    values = arguments("mhc_pre")
    with torch.no_grad():
        assert not any(output.requires_grad for output in call("mhc_pre", *values))
    constants = [value.detach() if isinstance(value, torch.Tensor) else value for value in values]
    assert not any(output.requires_grad for output in call("mhc_pre", *constants))
    assert [direction for _, direction, _ in spy.calls] == ["forward", "forward"]


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 1, 3), (0,), (2, 0)])
@pytest.mark.parametrize("op", OPS)
def test_both_ways_give_the_same_bits_in_all_leading_dimensions(op, lead, monkeypatch):
    results = []
    for takes in (eager.takes, lambda tensors: False):
        monkeypatch.setattr(eager, "takes", takes)
        values = arguments(op, lead=lead)
        outputs = call(op, *values)
        torch.autograd.backward(outputs, [tensor(*output.shape, requires_grad=False) for output in outputs])
        results.append([*outputs, *(value.grad for value in values[: TENSORS[op]])])
    for one, other in zip(*results, strict=True):
        assert one.shape == other.shape
        assert torch.equal(one, other)


def test_a_strided_tensor_and_an_expanded_gradient_are_taken(way):
    x = tensor(TOKENS, HIDDEN, N).transpose(1, 2)
    results = []
    for value in (x.detach(), x.detach().contiguous()):
        value.requires_grad_()
        mhc.mhc_pre(value, *mapping(N * (N + 2), 3)).h_in.sum().backward()
        results.append(value.grad)
    assert torch.equal(*results)


@pytest.mark.parametrize("lead", [(5,), (2, 3)])
def test_a_layer_may_change_its_input_in_place(lead):
    x = tensor(*lead, N, HIDDEN, requires_grad=False)
    results = []
    for inplace in (False, True):
        torch.manual_seed(0)
        module = mhc.HyperConnection(nn.Sequential(nn.ReLU(inplace=inplace), nn.Linear(HIDDEN, HIDDEN)), N, HIDDEN)
        out = module(x)
        out.square().sum().backward()
        results.append([out, *(parameter.grad for parameter in module.parameters())])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


@pytest.mark.parametrize("lead", [(3,), (1, 3)])
@pytest.mark.parametrize("op", OPS)
def test_the_gradient_of_a_gradient_is_that_of_the_equations(op, lead, way):
    """The sum over the gradients' squares, differentiated once more; against autograd through float64 equations."""
    own, plain = arguments(op, lead=lead), arguments(op)
    count = TENSORS[op]
    wide = [value.detach().double().requires_grad_() for value in plain[:count]]
    outputs, expected = call(op, *own), EQUATIONS[op](*wide, *plain[count:])[: GRADIENTS[op]]
    incoming = [tensor(*output.shape) for output in outputs]
    incoming_wide = [grad.detach().double().reshape(out.shape) for grad, out in zip(incoming, expected, strict=True)]
    for grad in incoming_wide:
        grad.requires_grad_()
    own_leaves, wide_leaves = [*own[:count], *incoming], [*wide, *incoming_wide]
    own_first = torch.autograd.grad(outputs, own[:count], incoming, create_graph=True)
    wide_first = torch.autograd.grad(expected, wide, incoming_wide, create_graph=True)
    linear = op == "expand"  # its gradient does not depend on its input
    leaves = (incoming, incoming_wide) if linear else (own_leaves, wide_leaves)
    second = torch.autograd.grad(sum(grad.square().sum() for grad in own_first), leaves[0])
    expected_second = torch.autograd.grad(sum(grad.square().sum() for grad in wide_first), leaves[1])
    for value, golden in zip(second, expected_second, strict=True):
        assert golden.abs().max() > 0
        torch.testing.assert_close(value.double().reshape(golden.shape), golden, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("op", OPS)
def test_second_gradients_are_those_of_finite_differences(op, monkeypatch):
    """PyTorch's own check of second gradients, through the operator itself, with everything in float64.

    It looks in one random direction: all elements one by one take twenty times as long.
    """
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    assert torch.autograd.gradgradcheck(
        lambda *values: (
            getattr(torch.ops.mhc, op)(*values, *arguments(op)[TENSORS[op] :], "float64")[: GRADIENTS[op]]
            if op in ("mhc_pre", "mhc_pre_norm", "mhc_post_pre", "mhc_head")
            else getattr(torch.ops.mhc, op)(*values, *arguments(op)[TENSORS[op] :], "float64")
        ),
        arguments(op, torch.float64)[: TENSORS[op]],
        fast_mode=True,
    )


@pytest.fixture(autouse=True)
def float64(monkeypatch):
    """Add a backend ``float64``, which is the reference: its equations compute in the dtype of what they get."""
    load = execution.load
    monkeypatch.setattr(
        execution, "load", lambda backend, *key: load("reference" if backend == "float64" else backend, *key)
    )


def test_third_gradients_are_those_of_the_equations(way):
    def third(function, x):
        value = function(x)
        for _ in range(2):
            [grad] = torch.autograd.grad(value, x, create_graph=True)
            value = grad.square().sum()
        return torch.autograd.grad(value, x)[0]

    logits = tensor(TOKENS, N, N, requires_grad=False)
    weights = tensor(TOKENS, N, N, requires_grad=False)
    own = third(lambda x: (mhc.sinkhorn(x, iterations=3) * weights).sum(), logits.clone().requires_grad_())
    wide = third(
        lambda x: (sinkhorn.forward(x, 3, 0.0, "paper").matrix * weights).sum(), logits.double().requires_grad_()
    )
    assert wide.abs().max() > 1e-3
    torch.testing.assert_close(own.double(), wide, rtol=1e-3, atol=1e-5)


def test_second_gradients_come_in_the_dtypes_of_the_tensors_and_for_those_asked_for(way):
    values = [value.detach().bfloat16() for value in arguments("mhc_pre")[:5]]
    x, phi = values[0].requires_grad_(), values[1].requires_grad_()
    h_in = mhc.mhc_pre(*values).h_in
    [grad] = torch.autograd.grad(h_in.float().square().sum(), x, create_graph=True)
    dx, dphi = torch.autograd.grad(grad.float().square().sum(), (x, phi))
    assert dx.dtype == dphi.dtype == torch.bfloat16
    assert dphi.abs().max() > 0


def test_second_gradients_with_tf32_products_are_not_zero(way):
    """Rounding has no derivative: the equations are differentiated without it."""
    results = []
    for precision in ("fp32", "tf32"):
        values = arguments("mhc_pre")[:5]
        outputs = mhc.mhc_pre(*values, precision=precision)
        [grad] = torch.autograd.grad(outputs.h_res.square().sum(), values[0], create_graph=True)
        results.append(torch.autograd.grad(grad.square().sum(), values[1])[0])
    torch.testing.assert_close(*results, rtol=2e-2, atol=2e-2)


def test_second_gradients_are_the_same_under_autocast(way):
    def second():
        values = arguments("mhc_pre")[:5]
        [grad] = torch.autograd.grad(mhc.mhc_pre(*values).h_res.square().sum(), values[0], create_graph=True)
        return torch.autograd.grad(grad.square().sum(), values[1])[0]

    plain = second()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(second(), plain)


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (0,)])
@pytest.mark.parametrize("form", ["paper", "deepseek", "liger"])
def test_a_layer_gives_the_same_bits_both_ways(lead, form, monkeypatch):
    """In eager mode the read of a HyperConnection is one node; elsewhere it is two operators."""
    torch.manual_seed(0)
    module = mhc.HyperConnection(nn.Linear(HIDDEN, HIDDEN), N, HIDDEN, gate=1.0, form=form, iterations=3)
    x = tensor(*lead, N, HIDDEN)
    leaves = [x, *module.parameters()]
    results = []
    for takes in (eager.takes, lambda tensors: False):
        monkeypatch.setattr(eager, "takes", takes)
        out = module(x)
        first = torch.autograd.grad(out.square().sum(), leaves, create_graph=True)
        second = torch.autograd.grad(sum(grad.square().sum() for grad in first), leaves)
        plain = torch.autograd.grad(module(x).square().sum(), leaves)
        results.append(([out, *first, *plain], second))
    (ours, our_second), (theirs, their_second) = results
    for one, other in zip(ours, theirs, strict=True):
        assert one.shape == other.shape
        assert torch.equal(one, other)
    # Autograd adds the parts of a second gradient up in another order.
    torch.testing.assert_close(our_second, their_second, rtol=1e-4, atol=1e-4)


def test_the_gradient_of_a_layer_s_gradient_is_that_of_float64():
    torch.manual_seed(0)
    module = mhc.HyperConnection(nn.Identity(), N, HIDDEN, gate=1.0, iterations=3).requires_grad_(False)
    x = tensor(2, 3, N, HIDDEN)

    def expected(wide):
        flat = wide.flatten(0, 1)
        values = [parameter.double() for parameter in (module.phi, module.alpha, module.bias, module.gamma)]
        h_in, h_post, logits, *_ = mhc_pre.forward(flat, *values, 1e-6, 1e-6, 2.0, "fp32")
        return mhc_post.forward(flat, h_in, h_post, *sinkhorn.forward(logits, 3, 0.0, "paper")).out

    seconds = []
    for function, leaf in ((module, x), (expected, x.detach().double().requires_grad_())):
        [grad] = torch.autograd.grad(function(leaf).square().sum(), leaf, create_graph=True)
        seconds.append(torch.autograd.grad(grad.square().sum(), leaf)[0].double())
    torch.testing.assert_close(*seconds, rtol=1e-4, atol=1e-3)


def test_the_read_of_a_layer_is_one_node(monkeypatch):
    module, x = mhc.HyperConnection(nn.Identity(), N, HIDDEN), tensor(TOKENS, N, HIDDEN)
    h_in, h_post, h_res = module.read(x)
    assert h_in.grad_fn is h_post.grad_fn is h_res.grad_fn
    monkeypatch.setattr(eager, "takes", lambda tensors: False)
    h_in, _, h_res = module.read(x)
    assert h_in.grad_fn is not h_res.grad_fn
