"""``mhc_post_pre`` made of two kernels: the addresses that a recorded call hands to each of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mhc.backends import in_turn, load
from mhc.ops import mhc_post_pre as op

TOKENS, N, HIDDEN = 3, 2, 8
BY_ADDRESS: dict[int, torch.Tensor] = {}


class Recorded:
    """The launches of a call of the reference, which find their tensors by the addresses that they get."""

    def __init__(self, kernel: Any, inputs: Any, out: Any) -> None:
        self._kernel, self._inputs, self._out = kernel, inputs, out

    def launch(self, addresses: list[int]) -> bool:
        given = iter(addresses)

        def others(values: Any) -> list[Any]:
            return [BY_ADDRESS[next(given)] if isinstance(value, torch.Tensor) else value for value in values]

        inputs = type(self._inputs)(*others(self._inputs))
        out = type(self._out)(*others(self._out))
        if hasattr(self._inputs, "added"):
            inputs.added, inputs.overwritten = BY_ADDRESS[next(given)], False
        assert next(given, None) is None
        run(self._kernel, inputs, out)
        return True


def run(kernel: Any, inputs: Any, out: Any) -> None:
    """Run the reference, which adds no gradient that came from elsewhere."""
    kernel.run(inputs, out)
    if hasattr(inputs, "added"):
        out.x.add_(inputs.added)


class Kernel:
    def __init__(self, name: str, direction: str) -> None:
        self._kernel = load("reference", name, direction)

    def run(self, inputs: Any, out: Any, target: str | None = None) -> Recorded:
        del target
        run(self._kernel, inputs, out)
        return Recorded(self._kernel, inputs, out)


def draw(gamma: bool) -> op.MhcPostPreInputs:
    mixes = N * (N + 2)
    shapes = [(TOKENS, N, HIDDEN), (TOKENS, HIDDEN), (TOKENS, N), (TOKENS, N, N), (mixes, N * HIDDEN), (3,), (mixes,)]
    return op.MhcPostPreInputs(*map(torch.randn, shapes), torch.randn(N, HIDDEN) if gamma else None)


def backward_of(inputs: op.MhcPostPreInputs, needs: tuple[bool, ...]) -> op.MhcPostPreBackwardInputs:
    out = op.empty_outputs(inputs)
    load("reference", "mhc_post_pre").run(inputs, out)
    grads = [torch.randn_like(out[place]) for place in (0, 1, 2, 3)]
    return op.MhcPostPreBackwardInputs(*inputs[:8], out.out, out.m, out.r, *grads, needs=needs)


@pytest.fixture
def kernels(monkeypatch):
    monkeypatch.setattr(in_turn, "load", lambda _, name, direction: Kernel(name, direction))
    room = torch.empty

    def noted(*arguments: Any, **options: Any) -> torch.Tensor:
        made = room(*arguments, **options)
        BY_ADDRESS[made.data_ptr()] = made
        return made

    monkeypatch.setattr(torch, "empty", noted)
    yield
    BY_ADDRESS.clear()


def launched_again(launches: Any, inputs: Any, out: Any) -> None:
    """Launch what was recorded, for these tensors."""
    tensors = [each for each in (*inputs, *out) if isinstance(each, torch.Tensor)]
    BY_ADDRESS.update({each.data_ptr(): each for each in tensors})
    assert launches.launch([each.data_ptr() for each in tensors])


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("gamma", [True, False])
def test_a_recorded_write_and_read_takes_other_tensors(gamma):
    inputs, others = draw(gamma), draw(gamma)
    launches = in_turn.Forward("any").run(inputs, op.empty_outputs(inputs))
    out, expected = op.empty_outputs(others), op.empty_outputs(others)
    launched_again(launches, others, out)
    load("reference", "mhc_post_pre").run(others, expected)
    for own, other in zip(out, expected, strict=True):
        torch.testing.assert_close(own, other)


NEEDS = {"all": (True,) * 8, "of the read": (False,) * 4 + (True,) * 4, "x alone": (True, *(False,) * 7)}
NEEDS |= {"y and phi": (False, True, False, False, True, False, False, False)}


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("gamma", [True, False])
@pytest.mark.parametrize("asked", NEEDS)
def test_a_recorded_way_back_takes_other_tensors(asked, gamma):
    needs = (*NEEDS[asked][:7], gamma and NEEDS[asked][7])
    inputs, others = (backward_of(draw(gamma), needs) for _ in range(2))
    launches = in_turn.Backward("any").run(inputs, op.empty_grads(inputs))
    out, expected = op.empty_grads(others), op.empty_grads(others)
    launched_again(launches, others, out)
    load("reference", "mhc_post_pre", "backward").run(others, expected)
    for own, other in zip(out, expected, strict=True):
        assert (own is None) == (other is None)
        torch.testing.assert_close(own, other)


@pytest.mark.usefixtures("kernels")
def test_nothing_is_recorded_where_a_kernel_records_nothing(monkeypatch):
    monkeypatch.setattr(Kernel, "run", lambda self, inputs, out, target=None: run(self._kernel, inputs, out))
    inputs = draw(gamma=True)
    assert in_turn.Forward("any").run(inputs, op.empty_outputs(inputs)) is None
