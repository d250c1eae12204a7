"""A call of a kernel that was made before goes to its launches, and every other one to the kernel itself."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch

from mhc.library import calls, execution
from mhc.library.operators import MHC_COEFFICIENTS, MHC_PRE

N, HIDDEN, MIXES = 4, 8, 24
OPTIONS = (1e-6, 1e-6, 2.0, "fp32")


class Launches:
    """The launches of one kind of call, which are told addresses."""

    def __init__(self):
        self.told = []
        self.takes = True

    def launch(self, addresses):
        self.told.append(addresses)
        return self.takes


class Recording:
    """A kernel that records the launches of each call that it has run."""

    adds_to_first = True

    def __init__(self):
        self.ran = []
        self.launches = {}

    def run(self, inputs, out, target=None):
        self.ran.append((inputs, out))
        kind = (type(inputs), inputs[0].shape, inputs[4:5] == (None,), inputs[5:], getattr(inputs, "overwritten", None))
        return self.launches.setdefault(str(kind) if len(inputs) < 12 else str(kind[:2]), Launches())


@pytest.fixture
def kernel(monkeypatch):
    made = Recording()
    monkeypatch.setattr(execution, "load", lambda backend, op, direction="forward": made)
    monkeypatch.setattr(calls, "_kept", OrderedDict())
    monkeypatch.setattr(torch.Tensor, "is_cuda", True, raising=False)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: torch.device("cpu").index)
    return made


def tensors(tokens=3, gamma=None):
    x = torch.zeros(tokens, N, HIDDEN, dtype=torch.bfloat16)
    return x, torch.zeros(MIXES, N * HIDDEN), torch.zeros(3), torch.zeros(MIXES), gamma


def forward(values, options=OPTIONS):
    return execution.forward(MHC_PRE, (*values, *options), "triton")


def backward_values(tokens=3, needs=(True,) * 5):
    saved = torch.zeros(tokens, MIXES), torch.zeros(tokens)
    grads = torch.zeros(tokens, HIDDEN).bfloat16(), torch.zeros(tokens, N), torch.zeros(tokens, N, N)
    return (*tensors(tokens), *saved, *grads, *OPTIONS, needs)


def addresses(*values):
    return [value.data_ptr() for value in values if value is not None]


def test_the_second_call_only_tells_the_launches_addresses(kernel):
    first = forward(tensors())
    values = tensors()
    second = forward(values)
    assert len(kernel.ran) == 1
    [launches] = kernel.launches.values()
    assert launches.told == [addresses(*values, *second)]
    assert [(one.shape, one.stride(), one.dtype) for one in second] == [
        (one.shape, one.stride(), one.dtype) for one in first
    ]


@pytest.mark.parametrize(
    "other",
    [
        (tensors(4), OPTIONS),
        (tensors(gamma=torch.zeros(N, HIDDEN)), OPTIONS),
        (tensors(), (1e-6, 1e-6, 1.0, "fp32")),
        ((tensors()[0].half(), *tensors()[1:]), OPTIONS),
    ],
)
def test_a_call_of_another_kind_is_not_the_same(kernel, other):
    forward(tensors())
    forward(*other)
    assert len(kernel.ran) == 2


def test_where_there_are_too_many_kinds_the_oldest_alone_is_forgotten(kernel, monkeypatch):
    monkeypatch.setattr(calls, "_MOST", 3)
    for tokens in (1, 2, 3, 4, 4, 3, 2):
        forward(tensors(tokens))
    assert [inputs[0].shape[0] for inputs, _ in kernel.ran] == [1, 2, 3, 4]
    forward(tensors(1))
    assert [inputs[0].shape[0] for inputs, _ in kernel.ran] == [1, 2, 3, 4, 1]
    assert len(calls._kept) == 3


def test_another_number_of_logits_is_another_kind(kernel):
    """x has the same shape, and so have most of the others."""
    for rows in (8, 12, 8):
        parameters = torch.zeros(rows, N * HIDDEN), torch.zeros(3), torch.zeros(rows), None
        [*_, logits, _, _] = execution.forward(MHC_COEFFICIENTS, (tensors()[0], *parameters, *OPTIONS), "triton")
        assert logits.shape == (3, rows - 8)
    assert len(kernel.ran) == 2


def test_a_tensor_that_is_not_packed_goes_to_the_kernel_which_gets_a_copy(kernel):
    forward(tensors())
    x, *others = tensors()
    forward((x.transpose(0, 1).contiguous().transpose(0, 1), *others))
    assert len(kernel.ran) == 2
    assert kernel.ran[1][0].x.is_contiguous()


def test_what_the_launches_do_not_take_goes_to_the_kernel(kernel):
    forward(tensors())
    [launches] = kernel.launches.values()
    launches.takes = False
    forward(tensors())
    assert len(kernel.ran) == 2


def test_a_kernel_without_recorded_calls_runs_each_time(kernel, monkeypatch):
    run = kernel.run
    monkeypatch.setattr(kernel, "run", lambda *arguments: run(*arguments) and None)
    for _ in range(3):
        forward(tensors())
    assert len(kernel.ran) == 3


def test_only_the_gradients_that_are_asked_for_are_allocated(kernel):
    needs = (True, False, True, False, False)
    for listed in (needs, list(needs)):  # PyTorch's dispatcher hands a list over
        grads = execution.backward(MHC_PRE, backward_values(needs=listed), "triton")
    assert [grad is not None for grad in grads] == list(needs)
    assert len(kernel.ran) == 1
    execution.backward(MHC_PRE, backward_values(needs=(True,) * 5), "triton")
    assert len(kernel.ran) == 2


@pytest.mark.parametrize("overwritten", [False, True])
def test_a_gradient_that_is_added_comes_last_or_is_the_result(kernel, overwritten):
    for _ in range(2):
        values, added = backward_values(), torch.zeros(3, N, HIDDEN).bfloat16()
        grads = execution.backward(MHC_PRE, values, "triton", added, overwritten=overwritten)
    assert len(kernel.ran) == 1
    [told] = next(iter(kernel.launches.values())).told
    assert told == addresses(*values[:10], *grads, *(() if overwritten else (added,)))
    assert (grads[0] is added) is overwritten
    execution.backward(MHC_PRE, values, "triton")
    execution.backward(MHC_PRE, values, "triton", added, overwritten=not overwritten)
    assert len(kernel.ran) == 3


def test_a_gradient_that_had_to_be_copied_makes_no_call_to_keep(kernel):
    """The kernel wrote into the copy; the next gradient may be aligned and somebody else's."""
    shifted = torch.zeros(3 * N * HIDDEN + 1, dtype=torch.bfloat16)[1:].view(3, N, HIDDEN)
    execution.backward(MHC_PRE, backward_values(), "triton", shifted)
    assert kernel.ran[0][0].overwritten
    execution.backward(MHC_PRE, backward_values(), "triton", torch.zeros(3, N, HIDDEN).bfloat16())
    assert [inputs.overwritten for inputs, _ in kernel.ran] == [True, False]
