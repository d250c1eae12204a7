"""Recomputation of what the operators keep: the same gradients to the bit, and fewer bytes."""

from __future__ import annotations

import contextlib
import gc

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import mhc
from mhc import recompute
from mhc.library import execution
from spy import Spy

N, HIDDEN, TOKENS, LAYERS = 4, 16, 64, 4


class Counted(nn.Linear):
    """A layer that counts how often it ran."""

    runs = 0

    def forward(self, x, scale=1.0):
        type(self).runs += 1
        return super().forward(x) * scale


def stack(layer=None, layers=LAYERS, **options):
    torch.manual_seed(0)
    layer = layer or (lambda: nn.Sequential(nn.LayerNorm(HIDDEN), Counted(HIDDEN, HIDDEN), nn.Tanh()))
    return nn.ModuleList(mhc.HyperConnection(layer(), N, HIDDEN, **options) for _ in range(layers))


def streams(dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(2, TOKENS // 2, N, HIDDEN, generator=generator).to(dtype).requires_grad_()


def forward(layers, x, recomputed, between=None):
    with mhc.recomputation() if recomputed else contextlib.nullcontext():
        for layer in layers:
            x = layer(x)
            if between:
                x = between(x)
    return x


def gradients(layers, x, out):
    grads = torch.autograd.grad(out.square().sum(), [x, *layers.parameters()])
    return [out.detach(), *grads]


def equal(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("options", [{}, {"gamma": False, "form": "deepseek", "precision": "tf32"}])
@pytest.mark.parametrize("dtypes", [(torch.float32,) * 2, (torch.bfloat16, torch.float32), (torch.bfloat16,) * 2])
def test_gradients_are_equal_to_the_bit(options, dtypes):
    layers = stack(dtype=dtypes[1], **options)
    for layer in layers:
        layer.layer.to(dtypes[0])
    results = [
        gradients(layers, x := streams(dtypes[0]), forward(layers, x, recomputed)) for recomputed in (False, True)
    ]
    assert equal(*results)


def test_the_wrapped_layers_run_once_and_the_kernels_twice(monkeypatch):
    spy = Spy()
    monkeypatch.setattr(execution, "load", spy)
    layers, x = stack(), streams()
    out = forward(layers, x, recomputed=True)
    before, Counted.runs = len(spy.calls), 0
    out.sum().backward()
    assert before == 3 * LAYERS
    assert Counted.runs == 0
    again = [op for op, direction, _ in spy.calls[before:] if direction == "forward"]
    # The last layer's output is not computed again: nothing needs it.
    assert again == ["mhc_pre", "sinkhorn", "mhc_post"] * (LAYERS - 1) + ["mhc_pre", "sinkhorn"]


def kept_bytes(function):
    """Return the bytes that are allocated and not freed while the function runs, and what it returns."""
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = function()
        gc.collect()
    # An event named [memory] is one outside of all operators, as when the last reference to a tensor goes.
    outside = sum(event.cpu_memory_usage for event in profiler.events() if event.name == "[memory]")
    inside = sum(event.self_cpu_memory_usage for event in profiler.events() if event.name != "[memory]")
    return outside + inside, result


def test_only_the_block_s_input_and_the_layers_outputs_are_kept():
    """The wrapped layer is a Tanh, which keeps its output alone: everything else that is kept is the operators'."""
    kept = {}
    for recomputed in (False, True):
        layers, x = stack(nn.Tanh), streams()
        kept[recomputed], out = kept_bytes(lambda r=recomputed, m=layers, s=x: forward(m, s, r))
        kept[recomputed] -= out.nbytes
    word, outputs = 4, LAYERS * TOKENS * HIDDEN * 4
    inner_streams = (LAYERS - 1) * TOKENS * N * HIDDEN * word
    coefficients = LAYERS * TOKENS * (N + 2 * N * N + N * (N + 2) + 1) * word  # h_post, h_res and logits, m, r
    assert kept[True] == outputs
    assert kept[False] == outputs + inner_streams + coefficients


def test_the_input_of_a_wrapped_layer_is_not_kept_either():
    kept = {}
    for recomputed in (False, True):
        layers, x = stack(lambda: nn.Linear(HIDDEN, HIDDEN)), streams()
        kept[recomputed], out = kept_bytes(lambda r=recomputed, m=layers, s=x: forward(m, s, r))
        kept[recomputed] -= out.nbytes
    assert kept[True] == LAYERS * TOKENS * HIDDEN * 4  # the layers' outputs


def test_the_streams_of_a_layer_are_given_back_when_its_backward_is_done():
    """The backward of a layer has no more steps with tensors than there are layers before it."""
    layers, x = stack(), streams()
    steps, own = [], recompute.Step.__init__

    def begin(step, *arguments):
        own(step, *arguments)
        steps.append(step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recompute.Step, "__init__", begin)
        out = forward(layers, x, recomputed=True)
    holding = []
    for layer in layers:
        layer.alpha.register_hook(lambda _: holding.append(sum(bool(step._tensors) for step in steps)))
    out.sum().backward()
    assert holding == [3, 2, 1, 0]


def test_the_input_of_a_wrapped_layer_that_keeps_none_is_not_held_again():
    layers, x = stack(nn.Tanh), streams()
    held = []
    out = forward(layers, x, recomputed=True)
    own = recompute.Step._compute
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recompute.Step, "_compute", lambda step: (own(step), held.append(set(step._tensors))))
        out.sum().backward()
    assert len(held) == LAYERS
    assert all({"x", "h_post", "h_res"} <= names and "h_in" not in names for names in held)


def test_memory_is_given_back_after_the_backward():
    layers, x = stack(), streams()

    def step():
        forward(layers, x, recomputed=True).sum().backward()

    step()  # makes the gradients of the parameters
    assert kept_bytes(step)[0] == 0


def test_a_graph_that_is_retained_gives_the_same_again():
    layers, x = stack(), streams()
    out = forward(layers, x, recomputed=True)
    first = torch.autograd.grad(out.sum(), x, retain_graph=True)
    assert equal(first, torch.autograd.grad(out.sum(), x))


def test_streams_that_are_changed_between_layers_start_a_block_of_their_own():
    """Out of place the operators do not know the new streams; in place they see that it is not what they gave."""
    for between in (lambda x: x * 2, lambda x: x.mul_(2), lambda x: x.transpose(-1, -2).contiguous().mT):
        layers = stack()
        results = [
            gradients(layers, x := streams(), forward(layers, x, recomputed, between)) for recomputed in (False, True)
        ]
        assert equal(*results)


def test_a_layer_may_change_its_input_in_place():
    layers = stack(lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(HIDDEN, HIDDEN)))
    results = [gradients(layers, x := streams(), forward(layers, x, recomputed)) for recomputed in (False, True)]
    assert equal(*results)


def test_a_hyper_connection_inside_of_a_layer_is_the_layer_s_own():
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.connection = mhc.HyperConnection(nn.Linear(HIDDEN, HIDDEN), N, HIDDEN)

        def forward(self, x):
            return self.connection(mhc.expand(x, N)).mean(dim=-2)

    layers = stack(Inner, layers=2)
    results = [gradients(layers, x := streams(), forward(layers, x, recomputed)) for recomputed in (False, True)]
    assert equal(*results)


def test_only_some_parameters_train():
    layers = stack()
    for layer in layers[:2]:
        layer.requires_grad_(False)
    results = []
    for recomputed in (False, True):
        out = forward(layers, streams().detach(), recomputed)
        results.append(torch.autograd.grad(out.square().sum(), list(layers[2:].parameters())))
    assert equal(*results)


def test_other_arguments_reach_the_layer():
    connection = mhc.HyperConnection(Counted(HIDDEN, HIDDEN), N, HIDDEN)
    x = streams()
    with mhc.recomputation():
        recomputed = connection(x, scale=2.0)
    assert torch.equal(recomputed, connection(x, 2.0))
    assert not torch.equal(recomputed, connection(x))


def test_second_gradients_go_through_a_block():
    layers = stack(layers=2)
    results = []
    for recomputed in (False, True):
        x = streams()
        [grad] = torch.autograd.grad(forward(layers, x, recomputed).square().sum(), x, create_graph=True)
        results.append(torch.autograd.grad(grad.square().sum(), [x, *layers.parameters()], allow_unused=True))
    for one, other in zip(*results, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda layers, x: torch.no_grad()(layers[1].phi.mul_)(2), "phi"),
        (lambda layers, x: x.detach().mul_(2), "the input"),
    ],
)
def test_what_was_changed_before_the_backward_is_refused(change, name):
    layers, x = stack(), streams()
    out = forward(layers, x, recomputed=True)
    change(layers, x)
    with pytest.raises(RuntimeError, match=f"mhc.recomputation: {name} was changed in place"):
        out.sum().backward()


def test_without_gradients_a_block_does_nothing():
    layers, x = stack(), streams()
    with torch.no_grad():
        assert torch.equal(forward(layers, x, recomputed=True), forward(layers, x, recomputed=False))
