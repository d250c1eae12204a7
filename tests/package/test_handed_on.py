"""The streams that a read hands on: the gradient that comes back through them is added inside the read's gradient."""

from __future__ import annotations

import importlib.util
import os

import pytest
import torch
from torch import nn

import mhc
from mhc.backends import load
from mhc.functional import mhc_post, read_with_x
from mhc.library import eager, execution
from mhc.ops import mhc_pre
from spy import HIDDEN, TOKENS, N, mapping, tensor

interpreted = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
    reason="Triton's interpreter is off",
)


def layer(x, parameters, backend=None, handed=True):
    """Return the new streams of a layer that halves its input."""
    if handed:
        x, (h_in, h_post, h_res) = read_with_x(x, *parameters, iterations=3, backend=backend)
    else:
        _, (h_in, h_post, h_res) = read_with_x(x, *parameters, iterations=3, backend=backend)
    return mhc_post(x, h_in / 2, h_post, h_res, backend=backend)


@pytest.mark.parametrize("lead", [(TOKENS,), (2, 3), ()])
def test_the_gradients_are_those_that_autograd_adds_itself(lead):
    """The bits too: where the kernel does not add, the two gradients are added in x's dtype, as autograd does."""
    x = tensor(*lead, N, HIDDEN)
    parameters = [value.requires_grad_() for value in mapping(N * (N + 2), 3)]
    results = [
        torch.autograd.grad(layer(x, parameters, handed=handed).square().sum(), [x, *parameters])
        for handed in (True, False)
    ]
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


def test_the_way_back_through_a_layer_adds_nothing_outside_of_the_read():
    """A node that adds would take the gradients of both; here x goes to one node alone."""
    x = tensor(TOKENS, N, HIDDEN)
    module = mhc.HyperConnection(nn.Identity(), N, HIDDEN)
    write = module(x).grad_fn
    handed, _, to_h_post, to_h_res = (node for node, _ in write.next_functions)
    assert handed is to_h_post is to_h_res, "the streams come to the write from the read"


def test_streams_without_a_gradient_are_handed_on_as_they_are():
    x = torch.randn(TOKENS, N, HIDDEN)
    parameters = [value.requires_grad_() for value in mapping(N * (N + 2), 3)]
    handed, (h_in, _, _) = read_with_x(x, *parameters)
    assert handed is x
    assert h_in.requires_grad
    with torch.no_grad():
        assert read_with_x(x.requires_grad_(), *parameters)[0] is x


@pytest.mark.parametrize("taken", [[0], [1], [2], [0, 2]])
def test_a_result_that_nobody_takes_has_no_part_in_the_gradients(taken, monkeypatch):
    """The streams that are handed on are not taken either."""
    gradients = []
    for way in ("eager", "dispatcher"):
        x, parameters = tensor(TOKENS, N, HIDDEN), [value.requires_grad_() for value in mapping(N * (N + 2), 3)]
        if way == "dispatcher":
            monkeypatch.setattr(eager, "takes", lambda tensors: False)
        _, results = read_with_x(x, *parameters, iterations=3)
        total = sum(results[place].square().sum() for place in taken)
        gradients.append(torch.autograd.grad(total, [x, *parameters]))
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one, other)


def test_a_gradient_of_the_gradient_goes_through_what_was_handed_on():
    seconds = []
    for handed in (True, False):
        x, parameters = tensor(TOKENS, N, HIDDEN), [value.requires_grad_() for value in mapping(N * (N + 2), 3)]
        [grad] = torch.autograd.grad(layer(x, parameters, handed=handed).square().sum(), x, create_graph=True)
        seconds.append(torch.autograd.grad(grad.square().sum(), x)[0])
    torch.testing.assert_close(*seconds, rtol=1e-5, atol=1e-5)


class _Adding:
    """The reference's kernel, as one that adds a gradient of x; ``overwritten`` notes whether in its memory."""

    adds_to_first = True

    def __init__(self, kernel):
        self._kernel, self.overwritten = kernel, []

    def run(self, inputs, out, target=None):
        self.overwritten.append(inputs.overwritten)
        added = inputs.added.clone()
        self._kernel.run(mhc_pre.MhcPreBackwardInputs(*inputs), out)
        out.x.add_(added)


def test_a_kernel_that_cannot_add_is_not_told_to_write_into_the_other_gradient(monkeypatch):
    """A call that was recorded would have that gradient, which it was not given, as its first result."""
    own, asked = execution.calls.Call.of, []

    def of(kernel, values, count, added=None, overwritten=False):
        asked.append((added, overwritten))
        return own(kernel, values, count, added, overwritten)

    monkeypatch.setattr(execution.calls.Call, "of", of)
    x, parameters = tensor(TOKENS, N, HIDDEN), [value.requires_grad_() for value in mapping(N * (N + 2), 3)]
    torch.autograd.grad(layer(x, parameters, handed=True).square().sum(), x)
    assert asked
    assert set(asked) == {(None, False)}


def _keep_as_output(handed, kept):
    kept.append(handed)


_KEEPERS = {
    "nobody": (lambda handed, kept: None, True),
    "a hook": (lambda handed, kept: handed.register_hook(lambda grad: kept.append(grad)), False),
    "a view": (lambda handed, kept: handed.register_hook(lambda grad: kept.append(grad.view(-1))), False),
    "its memory": (lambda handed, kept: handed.register_hook(lambda grad: kept.append(grad.detach())), False),
    "a hook of the node": (lambda handed, kept: handed.grad_fn.register_prehook(lambda g: kept.append(g[0])), False),
    "the caller": (_keep_as_output, False),
}


@pytest.mark.parametrize(("keep", "overwritten"), _KEEPERS.values(), ids=_KEEPERS)
def test_a_gradient_that_somebody_keeps_is_not_written_over(keep, overwritten, monkeypatch):
    """One that only autograd has is: the streams take their memory once on the way back."""
    own, adding = execution.load, _Adding(load("reference", "mhc_pre", "backward"))
    monkeypatch.setattr(
        execution,
        "load",
        lambda backend, op, way="forward": adding if (op, way) == ("mhc_pre", "backward") else own(backend, op, way),
    )
    x, parameters = tensor(TOKENS, N, HIDDEN), [value.requires_grad_() for value in mapping(N * (N + 2), 3)]
    gradients, kept = [], []
    for keeping in (lambda handed, kept: None, keep):
        handed, (h_in, h_post, h_res) = read_with_x(x, *parameters, iterations=3)
        keeping(handed, kept)
        out = mhc_post(handed, h_in / 2, h_post, h_res)
        asked = [x, *parameters, *(value for value in kept if value.requires_grad)]
        gradients.append(torch.autograd.grad(out.square().sum(), asked))
    assert adding.overwritten == [True, overwritten]
    assert all(torch.equal(one, other) for one, other in zip(*(grads[:5] for grads in gradients), strict=True))
    # What was kept is what the write gave: h_resᵀ times the gradient of the new streams.
    given = torch.einsum("...ij,...id->...jd", h_res, 2 * out).detach()
    for value in [*gradients[1][5:], *(value for value in kept if not value.requires_grad)]:
        torch.testing.assert_close(value.view_as(given), given)


@interpreted
@pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning")
@pytest.mark.parametrize("streams", [1, 4, 5])
def test_every_variant_of_triton_adds_before_it_rounds(streams):
    tokens, hidden, mixes = 9, 24, streams * (streams + 2)
    parameters = (
        torch.randn(mixes, streams * hidden) / 10,
        torch.randn(3),
        torch.randn(mixes),
        1 + torch.randn(streams, hidden) / 10,
    )
    x, added = torch.randn(tokens, streams, hidden), 100 * torch.randn(tokens, streams, hidden)
    inputs = mhc_pre.MhcPreBackwardInputs(
        x,
        *parameters,
        *load("reference", "mhc_pre").golden(mhc_pre.MhcPreInputs(x, *parameters))[3:],
        torch.randn(tokens, hidden),
        torch.randn(tokens, streams),
        torch.randn(tokens, streams, streams),
    )
    inputs = inputs._replace(m=inputs.m.float(), r=inputs.r.float())
    golden = load("reference", "mhc_pre", "backward").golden(inputs)
    kernel = load("triton", "mhc_pre", "backward")
    assert kernel.adds_to_first
    for name, variant in kernel.supported(inputs.spec, None).items():
        alone, both = mhc_pre.empty_grads(inputs), mhc_pre.empty_grads(inputs)
        variant.run(inputs, alone)
        variant.run(mhc_pre.MhcPreAddingInputs.of(inputs, added), both)
        torch.testing.assert_close(
            both.x.double(), golden.x + added, rtol=1e-6, atol=1e-5, msg=f"{name}: the sum is another"
        )
        assert all(torch.equal(one, other) for one, other in zip(alone[1:], both[1:], strict=True)), name
        unasked = inputs._replace(needs=(False, True, True, True, True))
        without = mhc_pre.empty_grads(unasked)
        variant.run(mhc_pre.MhcPreAddingInputs.of(unasked, added), without)
        assert torch.equal(without.phi, alone.phi), name
        inside = mhc_pre.MhcPreAddingInputs.of(inputs, added.clone(), overwritten=True)
        written = mhc_pre.empty_grads(inside)
        variant.run(inside, written)
        assert written.x is inside.added
        assert all(torch.equal(one, other) for one, other in zip(both, written, strict=True)), name


@interpreted
@pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning")
def test_a_layer_of_triton_has_the_gradients_of_the_reference():
    x = tensor(TOKENS, N, HIDDEN)
    parameters = [value.requires_grad_() for value in mapping(N * (N + 2), 3)]
    results = [
        torch.autograd.grad(layer(x, parameters, backend).square().sum(), [x, *parameters])
        for backend in ("triton", "reference")
    ]
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
