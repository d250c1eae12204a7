"""Circumstances that must change no bit: autocast, settings of fp32 products, and where a tensor lies in memory."""

from __future__ import annotations

import pytest
import torch

import mhc
from mhc.backends import load
from mhc.backends.reference.kernel import full_precision
from mhc.library import eager, execution
from spy import HIDDEN, TENSORS, TOKENS, N, Spy, arguments, call, tensor

OPS = list(TENSORS)
CPU = torch.device("cpu")


def results(op, backend="reference", dtype=torch.float32):
    """Return the outputs and all gradients of one call."""
    values = arguments(op)
    for place in range(2 if op in ("mhc_post", "mhc_post_pre", "mhc_single_pass") else 1):
        if op != "sinkhorn":
            values[place] = values[place].detach().to(dtype).requires_grad_()
    outputs = call(op, *values, backend=backend)
    grads = [tensor(*output.shape, requires_grad=False).to(output.dtype) for output in outputs]
    torch.autograd.backward(outputs, grads)
    return [*outputs, *(value.grad for value in values[: TENSORS[op]])]


def equal(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(("op", "backend"), [*((op, "reference") for op in OPS), ("mhc_head", "inductor")])
def test_autocast_changes_no_bit(op, backend, monkeypatch):
    """Inductor's graphs are traced and run, and not compiled: autocast changes what is traced."""
    for direction in ("forward", "backward") if backend == "inductor" else ():
        kernel = load(backend, op, direction)
        equations = load("reference", op, direction).equations
        monkeypatch.setattr(kernel, "_compiled", torch.compile(equations, fullgraph=True, backend="eager"))
    for dtype in (torch.float32, torch.bfloat16):
        plain = results(op, backend, dtype)
        with torch.autocast("cpu", torch.bfloat16):
            assert equal(results(op, backend, dtype), plain)


@pytest.mark.parametrize("compiled", [False, True])
def test_autocast_changes_no_bit_of_a_backward_outside_of_it(compiled):
    """The forward runs under autocast and the backward after it, as training loops do; and in a graph."""

    def run(x, *parameters):
        return mhc.mhc_pre(x, *parameters)

    function = torch.compile(run, fullgraph=True, backend="aot_eager") if compiled else run
    seen = []
    for enabled in (False, True):
        values = arguments("mhc_pre")[:5]
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            outputs = function(*values)
        sum(output.square().sum() for output in outputs).backward()
        seen.append([*outputs, *(value.grad for value in values)])
    assert equal(*seen)


@pytest.fixture
def settings():
    """Set PyTorch's settings of fp32 products back after a test."""
    yield
    torch.set_float32_matmul_precision("highest")


def narrow_by_level():
    torch.set_float32_matmul_precision("medium")


def narrow_by_allow_tf32():
    torch.backends.cuda.matmul.allow_tf32 = True


def narrow_by_fp32_precision():
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"


def precisions():
    return torch.backends.cuda.matmul.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision


@pytest.mark.parametrize("narrow", [narrow_by_level, narrow_by_allow_tf32, narrow_by_fp32_precision])
def test_products_are_in_fp32_whatever_the_settings_say(narrow, settings):
    narrow()
    before = precisions()
    assert "tf32" in before
    with full_precision(CPU):
        with full_precision(CPU):
            assert precisions() == ("ieee", "ieee")
        assert precisions() == ("ieee", "ieee")
        assert torch.get_float32_matmul_precision() == "highest"  # what else PyTorch asks, it can still ask
        assert not torch.backends.cuda.matmul.allow_tf32
    assert precisions() == before


def test_the_settings_are_set_back_after_an_error(settings):
    narrow_by_level()
    before = precisions()
    with pytest.raises(RuntimeError, match="out of luck"), full_precision(CPU):
        raise RuntimeError("out of luck")
    assert precisions() == before


def test_settings_of_fp32_products_change_no_bit(settings):
    plain = results("mhc_pre")
    torch.set_float32_matmul_precision("medium")
    assert equal(results("mhc_pre"), plain)


def misaligned(value):
    """Return the same numbers in contiguous memory that starts one element after a multiple of 64 bytes."""
    buffer = torch.empty(value.numel() + 1, dtype=value.dtype)
    copy = buffer[1:].view(value.shape)
    copy.copy_(value.detach())
    assert copy.data_ptr() % execution.ALIGNMENT
    assert copy.is_contiguous()
    return copy.requires_grad_(value.requires_grad)


@pytest.mark.parametrize("dispatcher", [False, True])
@pytest.mark.parametrize("op", OPS)
def test_a_kernel_gets_aligned_memory_only(op, dispatcher, monkeypatch):
    spy = Spy()
    monkeypatch.setattr(execution, "load", spy)
    if dispatcher:
        monkeypatch.setattr(eager, "takes", lambda tensors: False)
    values = [misaligned(value) if isinstance(value, torch.Tensor) else value for value in arguments(op)]
    outputs = call(op, *values)
    grads = [misaligned(tensor(*output.shape, requires_grad=False)) for output in outputs]
    torch.autograd.backward(outputs, grads)
    assert [direction for _, direction, _ in spy.calls] == ["forward", "backward"]
    for *_, inputs in spy.calls:
        for name, value in inputs._asdict().items():
            if isinstance(value, torch.Tensor):
                assert value.data_ptr() % execution.ALIGNMENT == 0, name
                assert value.is_contiguous(), name
    aligned = results(op)
    assert equal([*outputs, *(value.grad for value in values[: TENSORS[op]])], aligned)


def test_a_dimension_of_one_element_has_the_stride_that_a_new_tensor_has(monkeypatch):
    spy = Spy()
    monkeypatch.setattr(execution, "load", spy)
    values = [
        tensor(*value.shape[:-1], 2 * value.shape[-1])[..., ::2] if isinstance(value, torch.Tensor) else value
        for value in arguments("mhc_head")
    ]
    call("mhc_head", *values)
    call("expand", tensor(2, HIDDEN)[::2], *arguments("expand")[1:])
    for *_, inputs in spy.calls:
        for name, value in inputs._asdict().items():
            if isinstance(value, torch.Tensor):
                assert value.stride() == torch.empty(value.shape).stride(), name


def test_aligned_memory_is_not_copied(monkeypatch):
    spy = Spy()
    monkeypatch.setattr(execution, "load", spy)
    x = tensor(TOKENS, N, HIDDEN)
    call("mhc_pre", x, *arguments("mhc_pre")[1:])
    assert spy.inputs("mhc_pre", "forward").x.data_ptr() == x.data_ptr()
