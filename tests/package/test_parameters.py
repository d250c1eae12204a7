"""Parameters in narrow dtypes: gradients in the same dtype, and ``main_grad``."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

import mhc
from spy import HIDDEN, TOKENS, N, arguments, tensor

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
PARAMETERS = ("phi", "alpha", "bias", "gamma")


def draw(op, dtypes):
    """Return x, the parameters in these dtypes, and the same in fp32."""
    x, *parameters = arguments(op)[:5]
    narrow = [value.detach().to(dtype).requires_grad_() for value, dtype in zip(parameters, dtypes, strict=True)]
    return x, narrow, [value.detach().float().requires_grad_() for value in narrow]


def run(op, x, parameters, **options):
    outputs = getattr(mhc, op)(x, *parameters, **options)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    torch.autograd.backward(outputs, [tensor(*output.shape, requires_grad=False) for output in outputs])
    return outputs


@pytest.mark.parametrize("op", ["mhc_pre", "mhc_head"])
@pytest.mark.parametrize("dtypes", [*itertools.product(DTYPES[:2], repeat=1), *itertools.permutations(DTYPES, 2)])
def test_each_parameter_may_be_narrow_and_has_its_gradient_in_its_dtype(op, dtypes):
    x, narrow, wide = draw(op, (dtypes * 4)[:4])
    for own, expected in zip(run(op, x, narrow), run(op, x, wide), strict=True):
        assert torch.equal(own, expected)
    for own, expected in zip(narrow, wide, strict=True):
        assert own.grad.dtype == own.dtype
        assert expected.grad.abs().max() > 0
        assert torch.equal(own.grad, expected.grad.to(own.dtype))


def test_parameters_in_fp32_are_handed_on_as_they_are():
    x, _, wide = draw("mhc_pre", (torch.float32,) * 4)
    node = mhc.mhc_pre(x, *wide).h_in.grad_fn
    assert {type(next_node).__name__ for next_node, _ in node.next_functions if next_node} == {"AccumulateGrad"}


@pytest.mark.parametrize("op", ["mhc_pre", "mhc_head"])
def test_main_grad_adds_up_in_fp32(op):
    """Many backward passes: the sum equals the sum for fp32 parameters, and a sum in bf16 does not."""
    x, narrow, wide = draw(op, (torch.bfloat16, torch.float16, torch.float32, torch.bfloat16))
    _, summed_narrow, _ = draw(op, (torch.bfloat16, torch.float16, torch.float32, torch.bfloat16))
    for _ in range(50):
        run(op, x, narrow, main_grad=True)
        run(op, x, wide)
        run(op, x, summed_narrow)
    for name, own, expected, lossy in zip(PARAMETERS, narrow, wide, summed_narrow, strict=True):
        if name == "bias":  # fp32: its gradient is in fp32 as it is
            assert not hasattr(own, "main_grad")
            assert torch.equal(own.grad, expected.grad)
            continue
        assert own.grad is None
        assert own.main_grad.dtype == torch.float32
        assert torch.equal(own.main_grad, expected.grad)
        assert not torch.equal(lossy.grad.float(), expected.grad)


def test_main_grad_is_made_anew_after_it_was_set_to_none():
    x, narrow, _ = draw("mhc_pre", (torch.bfloat16,) * 4)
    run("mhc_pre", x, narrow, main_grad=True)
    first = narrow[0].main_grad
    narrow[0].main_grad = None
    run("mhc_pre", x, narrow, main_grad=True)
    assert torch.equal(narrow[0].main_grad, first)
    run("mhc_pre", x, narrow, main_grad=True)
    assert torch.equal(narrow[0].main_grad, 2 * first)


def test_main_grad_refuses_what_it_cannot_do():
    x, narrow, _ = draw("mhc_pre", (torch.bfloat16,) * 4)
    with pytest.raises(ValueError, match="mhc_pre: phi is no leaf"):
        mhc.mhc_pre(x, narrow[0] * 1, *narrow[1:], main_grad=True)
    outputs = mhc.mhc_pre(x, *narrow, main_grad=True)
    with pytest.raises(NotImplementedError, match=r"mhc_pre: .* its gradient has no gradient"):
        outputs.h_res.sum().backward(create_graph=True)
    with torch.no_grad():
        assert mhc.mhc_pre(x, narrow[0] * 1, *narrow[1:], main_grad=True).h_in.shape == (TOKENS, HIDDEN)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # PyTorch asks for it itself
def test_main_grad_breaks_a_graph_and_is_right_in_it():
    x, narrow, wide = draw("mhc_pre", (torch.bfloat16,) * 4)
    run("mhc_pre", x, wide)
    compiled = torch.compile(lambda *values: mhc.mhc_pre(*values, main_grad=True), backend="aot_eager")
    outputs = compiled(x, *narrow)
    torch.autograd.backward(outputs, [tensor(*output.shape, requires_grad=False) for output in outputs])
    assert all(torch.equal(own.main_grad, expected.grad) for own, expected in zip(narrow, wide, strict=True))
    whole = torch.compile(lambda *values: mhc.mhc_pre(*values, main_grad=True), backend="aot_eager", fullgraph=True)
    with pytest.raises(Exception, match="main_grad is written outside of a graph"):
        whole(x, *narrow)


def model():
    torch.manual_seed(0)
    return mhc.HyperConnection(nn.Linear(HIDDEN, HIDDEN), N, HIDDEN)


def test_a_module_trains_in_bf16_as_a_whole():
    module = model().bfloat16()
    x = mhc.expand(tensor(5, HIDDEN, requires_grad=False).bfloat16(), N)
    out = module(x)
    assert out.dtype == torch.bfloat16
    out.sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad.dtype == torch.bfloat16, name


def test_a_module_in_bf16_computes_its_mapping_in_fp32():
    narrow = model().bfloat16()
    wide = model()
    wide.load_state_dict(narrow.state_dict())
    x = mhc.expand(tensor(5, HIDDEN, requires_grad=False), N)
    for own, expected in zip(*(run_mapping(module, x) for module in (narrow, wide)), strict=True):
        assert torch.equal(own, expected)


def run_mapping(module, x):
    return mhc.mhc_pre(x, module.phi, module.alpha, module.bias, module.gamma)
