"""The time that a call takes in Python, apart from its kernels: the kernels here do nothing.

A limit in seconds would be one of the machine. These are relative to a chain of plain autograd functions. It does what
any operator with so many tensors must do: a node, its saved tensors, its empty outputs.
"""

from __future__ import annotations

import gc
import time
from collections import Counter

import pytest
import torch
from torch import nn

import mhc
import mhc.functional
from mhc.library import eager, execution

N, HIDDEN, TOKENS = 4, 8, 8


class Nothing:
    """A kernel that computes nothing."""

    def run(self, inputs, out, target=None):
        pass


@pytest.fixture
def nothing(monkeypatch):
    kernel = Nothing()
    monkeypatch.setattr(execution, "load", lambda backend, op, direction="forward": kernel)


class Plain(torch.autograd.Function):
    """As many tensors as an operator has, and nothing else."""

    @staticmethod
    def forward(ctx, outputs, *tensors):
        ctx.save_for_backward(*tensors)
        return tuple(torch.empty_like(tensor) for tensor in tensors[:outputs])

    @staticmethod
    def backward(ctx, *grads):
        return None, *(torch.empty_like(tensor) for tensor in ctx.saved_tensors)


def plain_layer(x, parameters):
    """Three nodes with the tensors of mhc_pre, sinkhorn and mhc_post."""
    h_in, h_post, logits = Plain.apply(3, x, *parameters)
    [h_res] = Plain.apply(1, logits)
    return Plain.apply(1, x, h_in, h_post, h_res)[0]


def ratios(*functions, rounds=60, calls=5):
    """Return the time of each function over the time of the last one: the lower quartile of rounds in turns.

    The least times would be of different moments, and a core changes its speed. What else runs adds to a ratio.
    """
    for function in functions:
        for _ in range(20):
            function()
    found = [[] for _ in functions]
    gc.disable()
    try:
        for _ in range(rounds):
            times = []
            for function in functions:
                start = time.process_time_ns()
                for _ in range(calls):
                    function()
                times.append(time.process_time_ns() - start)
            for place, spent in enumerate(times):
                found[place].append(spent / times[-1])
    finally:
        gc.enable()
    return [sorted(one)[rounds // 4] for one in found]


def layer(lead=(TOKENS,)):
    module = mhc.HyperConnection(nn.Identity(), N, HIDDEN)
    x = torch.zeros(*lead, N, HIDDEN, requires_grad=True)
    grad = torch.zeros_like(x)
    return module, x, lambda: module(x).backward(grad)


def plain(x, module):
    grad = torch.zeros_like(x)
    parameters = list(module.parameters())
    return lambda: plain_layer(x, parameters).backward(grad)


@pytest.mark.parametrize(("lead", "limit"), [((TOKENS,), 2.5), ((2, TOKENS // 2), 3.5)])
def test_a_layer_costs_little_more_than_its_nodes(nothing, lead, limit):
    module, x, own = layer(lead)
    ours, _ = ratios(own, plain(x, module))
    assert ours < limit, f"{ours:.2f} times the time of plain autograd functions"


def test_the_dispatcher_costs_more_than_that(nothing, monkeypatch):
    """The limit above means something: the other way to a kernel does not keep it."""
    module, x, own = layer()
    takes = eager.takes
    monkeypatch.setattr(eager, "takes", takes)  # it is set back also where a call fails

    def dispatched():
        eager.takes = lambda tensors: False
        own()
        eager.takes = takes

    # They take turns: one after the other, each would have the load of its own moment.
    quick, slow, _ = ratios(own, dispatched, plain(x, module))
    assert slow > 2.5
    assert slow > 1.5 * quick


def test_without_gradients_a_layer_costs_less_than_its_forward_with_them(nothing):
    module, x, _ = layer()

    def without():
        with torch.no_grad():
            module(x)

    short, _ = ratios(without, lambda: module(x))
    assert short < 1


@pytest.mark.parametrize("lead", [(TOKENS,), (2, TOKENS // 2), ()])
def test_nothing_is_copied_or_cast(nothing, monkeypatch, lead):
    """Contiguous fp32 tensors: no operator of PyTorch but allocations, and one view, of the x that is handed on."""
    from torch.profiler import ProfilerActivity, profile

    monkeypatch.setattr(Nothing, "any_leading_dims", len(lead) != 1, raising=False)
    _, _, own = layer(lead)
    own()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        own()
    names = Counter(event.name for event in profiler.events() if event.name.startswith("aten::"))
    assert "aten::empty" in {name.replace("_like", "").replace("new_", "") for name in names}
    assert names["aten::view_as"] == 1, "x is handed on, and what a function returns is another tensor"
    names["aten::view"] -= names["aten::view_as"]
    copies = {"aten::copy_", "aten::clone", "aten::_to_copy", "aten::contiguous"}
    views = {"aten::view", "aten::reshape", "aten::flatten", "aten::_unsafe_view", "aten::unsqueeze"}
    assert not [name for name in copies | views if names[name]], names
