"""Recorded calls of the backend ``cpp`` give the bits of the kernels, with fibers on this CPU in place of a driver.

What is recorded is the order of addresses; it is the same there as on a GPU.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import mhc
import spy
from mhc.backends import load
from mhc.backends.cpp import devices
from mhc.backends.cpp import kernel as cpp_kernel
from mhc.backends.cpp.compilers import cpu_target
from mhc.library import calls

HIDDEN = 128  # a group of fp8
DIRECTIONS = [("mhc_single_pass", "forward"), ("mhc_single_pass", "backward"), ("mhc_pre_norm", "backward")]


class Fibers:
    """In the place of a source's kernels on a GPU: those on this CPU."""

    def __init__(self, source: Any) -> None:
        self._library = devices._library(source, cpu_target())

    def launcher(self, launch: devices.Launch) -> Any:
        function = getattr(self._library, f"{launch.kernel}_launch")
        sizes = tuple(map(ctypes.c_uint, (*launch.grid, devices.THREADS)))

        def start(stream: int, pointers: Any) -> None:
            message = ctypes.create_string_buffer(999)
            assert not function(*sizes, pointers, message, ctypes.c_size_t(999)), message.value

        return start


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the operators whose kernels run from now on; a recorded call is none of these."""

    def issue(made: Any, device: torch.device, addresses: list[int], target: str | None) -> Any:
        return devices._issued(made, None, addresses, cpu_target())  # type: ignore[arg-type]

    monkeypatch.setattr(cpp_kernel, "issue", issue)
    monkeypatch.setattr(devices, "_driver", lambda: SimpleNamespace(enter=lambda index: None))
    monkeypatch.setattr(devices, "_module", lambda source, target, index: Fibers(source))
    monkeypatch.setattr(devices.torch._C, "_cuda_getCurrentRawStream", lambda index: 0, raising=False)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True, raising=False)
    monkeypatch.setattr(calls, "_kept", OrderedDict())
    run, made = cpp_kernel.Kernel.run, []

    def noted(self: Any, *arguments: Any) -> Any:
        made.append(self._operator)
        return run(self, *arguments)

    monkeypatch.setattr(cpp_kernel.Kernel, "run", noted)
    return made


def drawn(op: str, scale: float, dtype: torch.dtype = torch.float32, **sizes: Any) -> list[Any]:
    """Return the arguments of an operator; no two scales have the same numbers."""
    values = spy.arguments(op, dtype, **({"hidden": HIDDEN} | sizes))
    return [(scale * each.detach()).requires_grad_() if isinstance(each, torch.Tensor) else each for each in values]


def results(op: str, values: list[Any]) -> list[torch.Tensor]:
    """Return the results of a call and the gradients of its tensors, those that are asked for."""
    tensors = [each for each in values if isinstance(each, torch.Tensor)]
    asked = [each for each in tensors if each.requires_grad]
    out = spy.call(op, *values, backend="cpp")
    if not asked:
        return list(out)
    given = [torch.linspace(-1, 1, each.numel()).view(each.shape).to(each.dtype) for each in out]
    return [*(each.detach() for each in out), *torch.autograd.grad(out, asked, given)]


def assert_the_bits(values: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for own, other in zip(values, expected, strict=True):
        assert (own.dtype, own.shape) == (other.dtype, other.shape)
        assert torch.equal(own.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


def without_records(function: Any, *arguments: Any) -> Any:
    """Return what the kernels themselves give."""
    kept, calls._kept = calls._kept, OrderedDict()
    try:
        return function(*arguments)
    finally:
        calls._kept = kept


@pytest.mark.parametrize("op", ["mhc_single_pass", "mhc_pre_norm", "mhc_pre", "mhc_head", "mhc_coefficients"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_recorded_call_and_its_way_back_have_the_bits_of_the_kernels(runs, op, dtype):
    others = [drawn(op, scale, dtype) for scale in (0.5, 1.0, 2.0)]
    expected = [without_records(results, op, each) for each in others]
    results(op, others[0])
    runs.clear()
    made = [results(op, each) for each in others]
    assert not runs, "a kernel ran that was recorded"
    for own, other in zip(made, expected, strict=True):
        assert_the_bits(own, other)
    assert not torch.equal(expected[0][0], expected[1][0])


@pytest.mark.parametrize("op", ["mhc_single_pass_fp8", "mhc_pre_fp8"])
def test_a_recorded_call_in_fp8_has_the_bits_of_the_kernels(runs, op):
    def given(values: list[Any]) -> list[torch.Tensor]:
        with torch.no_grad():
            count = len(values) - 4
            out = getattr(mhc, op)(*values[:count], norm_eps=1e-3, backend="cpp")
        return [each for one in out for each in (one if isinstance(one, tuple) else (one,))]

    drawn_as = "mhc_single_pass" if op == "mhc_single_pass_fp8" else "mhc_pre_norm"
    first, second = (drawn(drawn_as, scale) for scale in (0.5, 2.0))
    expected = without_records(given, second)
    given(first)
    runs.clear()
    assert_the_bits(given(second), expected)
    assert not runs


OTHERS = {
    "another dtype": lambda: drawn("mhc_single_pass", 1.0, torch.float16),
    "another number of tokens": lambda: drawn("mhc_single_pass", 1.0, lead=(spy.TOKENS + 1,)),
    "the tokens in two dimensions": lambda: drawn("mhc_single_pass", 1.0, lead=(1, spy.TOKENS)),
    "another width": lambda: drawn("mhc_single_pass", 1.0, hidden=HIDDEN // 2),
    "fewer streams of as many numbers": lambda: drawn("mhc_single_pass", 1.0, n=spy.N // 2, hidden=2 * HIDDEN),
    "fewer logits": lambda: fewer_logits(drawn("mhc_single_pass", 1.0)),
    "no gamma": lambda: changed(8, None),
    "another norm_eps": lambda: changed(10, 1e-2),
    "another pre_eps": lambda: changed(11, 1e-1),
    "another post_scale": lambda: changed(12, 1.0),
    "another precision": lambda: changed(13, "tf32"),
    "weights to read with that are not packed": lambda: strided(4),
    "streams that are not packed": lambda: strided(0),
    "no gradient of x": lambda: changed(0, drawn("mhc_single_pass", 1.0)[0].detach()),
    "no gradient of the norm's weight": lambda: changed(9, drawn("mhc_single_pass", 1.0)[9].detach()),
}


def changed(place: int, value: Any) -> list[Any]:
    values = drawn("mhc_single_pass", 1.0)
    values[place] = value
    return values


def strided(place: int) -> list[Any]:
    value = drawn("mhc_single_pass", 1.0)[place].detach()
    return changed(place, value.transpose(0, 1).contiguous().transpose(0, 1).requires_grad_())


def fewer_logits(values: list[Any]) -> list[Any]:
    values[5], values[7] = (values[place].detach()[:-1].contiguous().requires_grad_() for place in (5, 7))
    return values


@pytest.mark.parametrize("other", OTHERS)
def test_a_recorded_single_pass_is_not_taken_for_one_of_another_kind(runs, other):
    values = OTHERS[other]()
    expected = without_records(results, "mhc_single_pass", values)
    results("mhc_single_pass", drawn("mhc_single_pass", 2.0))
    runs.clear()
    assert_the_bits(results("mhc_single_pass", values), expected)
    assert runs


def test_a_recorded_single_pass_is_of_one_device_and_kernel(runs):
    values = drawn("mhc_single_pass", 1.0)
    there = [each.to("meta") if isinstance(each, torch.Tensor) else each for each in values]
    kernels = [load("cpp", *each) for each in DIRECTIONS[:2]]
    made = [calls.Call.of(kernel, tuple(given), 10) for kernel in kernels for given in (values, there)]
    assert len({call.key for call in made if call is not None}) == 4


def test_a_tensor_that_is_handed_over_twice_makes_no_recorded_call(runs):
    """The next call cannot tell what is written to from what is read."""
    values = drawn("mhc_single_pass", 1.0)
    values[2] = values[4]  # h_post and pre have one shape
    results("mhc_single_pass", values)
    runs.clear()
    others = drawn("mhc_single_pass", 2.0)
    expected = without_records(results, "mhc_single_pass", others)
    runs.clear()
    assert_the_bits(results("mhc_single_pass", others), expected)
    assert "norm" in runs
