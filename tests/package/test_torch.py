"""The operators in PyTorch: gradients, tracing, autocast, and a module that trains."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import mhc
from spy import COMPILED, EQUATIONS, HIDDEN, OPS, N, arguments, mapping, tensor


@pytest.mark.parametrize("op", OPS)
def test_the_reference_s_gradients_are_those_of_finite_differences(op):
    assert torch.autograd.gradcheck(EQUATIONS[op], arguments(op, torch.float64))


@pytest.mark.parametrize("op", OPS)
def test_the_operator_is_well_registered(op):
    """Schema, fake tensors, autograd registration and tracing, by PyTorch's own check."""
    torch.library.opcheck(getattr(torch.ops.mhc, op).default, (*arguments(op), "reference"))


@pytest.mark.parametrize(
    ("op", "backend"),
    # PyTorch's compiler starts a process for each core; by day ``ci/nox -s matrix`` has its gradients.
    [*((op, "reference") for op in OPS), pytest.param("expand", "inductor", marks=pytest.mark.nightly)],
)
def test_gradients_reach_every_tensor_and_are_autograd_s(op, backend):
    own, plain = (arguments(op, **(COMPILED if backend == "inductor" else {})) for _ in range(2))
    outputs = getattr(torch.ops.mhc, op)(*own, backend)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    expected = EQUATIONS[op](*plain)
    differentiable = [place for place, output in enumerate(outputs) if output.requires_grad]
    outputs, expected = ([values[place] for place in differentiable] for values in (outputs, expected))
    grads = [tensor(*output.shape, requires_grad=False) for output in outputs]
    torch.autograd.backward(outputs, grads)
    torch.autograd.backward(expected, grads)
    for a, b in zip(own, plain, strict=True):
        if isinstance(a, torch.Tensor):
            assert a.grad is not None
            assert a.grad.abs().max() > 0
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-5, atol=1e-5)


def test_gradients_of_no_token_are_zero():
    x = torch.zeros(0, N, HIDDEN, requires_grad=True)
    parameters = mapping(N * (N + 2), 3)
    mhc.mhc_pre(x, *parameters).h_in.sum().backward()
    assert x.grad.shape == x.shape
    assert all(not p.grad.any() for p in parameters)


def model(**options):
    torch.manual_seed(0)
    return mhc.HyperConnection(nn.Linear(HIDDEN, HIDDEN), N, HIDDEN, **options)


@pytest.fixture
def streams():
    return mhc.expand(tensor(5, HIDDEN, requires_grad=False), N)


def test_the_module_starts_as_a_residual_layer(streams):
    """Every stream is read with 1/n and written with 1, and the streams stay apart."""
    module = model(gate=0.0)
    with torch.no_grad():
        expected = streams + module.layer(streams.mean(dim=-2)).unsqueeze(-2)
        torch.testing.assert_close(module(streams), expected, rtol=0, atol=5e-3)


def test_the_module_compiles_to_one_graph_and_exports(streams):
    module = model()
    eager = module(streams)
    eager.sum().backward()
    compiled_module = copy.deepcopy(module)
    compiled_module.zero_grad()
    compiled = torch.compile(compiled_module, fullgraph=True)(streams)
    torch.testing.assert_close(compiled, eager)
    compiled.sum().backward()
    for (name, a), b in zip(compiled_module.named_parameters(), module.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-5, atol=1e-5, msg=name)
    exported = torch.export.export(module, (streams,))
    torch.testing.assert_close(exported.module()(streams), eager)
    assert "mhc.mhc_pre" in exported.graph_module.code


def test_a_training_step_lowers_the_loss(streams):
    module = model()
    target = tensor(5, N, HIDDEN, requires_grad=False)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-2)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (module(streams) - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]


def test_under_autocast_the_streams_keep_their_dtype_and_the_mapping_stays_fp32(streams):
    module = model()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for x in (streams, streams.bfloat16()):
            out = module(x)
            assert out.dtype == x.dtype
            out.sum().backward()
    assert module.phi.grad.dtype == torch.float32


def test_deterministic_mode_is_honoured(streams):
    module = model()
    torch.use_deterministic_algorithms(True)
    try:
        results = []
        for _ in range(2):
            module.zero_grad()
            module(streams).sum().backward()
            results.append([parameter.grad.clone() for parameter in module.parameters()])
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mhc.sinkhorn(torch.zeros(2, 3)), ValueError, r"logits has shape \(2, 3\); it needs \[..., n, n\]"),
        (lambda: mhc.sinkhorn(torch.zeros(2, 2).half()), TypeError, "logits is torch.float16; it needs torch.float32"),
        (lambda: mhc.sinkhorn(torch.zeros(2, 2), iterations=0), ValueError, "iterations is 0; it needs at least 1"),
        (lambda: mhc.expand(torch.zeros(4), 0), ValueError, "streams is 0; it needs at least 1"),
        (lambda: mhc.expand(torch.zeros(4).int(), 2), TypeError, "x is torch.int32"),
        (
            lambda: mhc.mhc_post(
                torch.zeros(5, 2, 4), torch.zeros(5, 4).half(), torch.zeros(5, 2), torch.zeros(5, 2, 2)
            ),
            TypeError,
            "y is torch.float16; it needs torch.float32",
        ),
        (
            lambda: mhc.mhc_post(torch.zeros(5, 2, 4), torch.zeros(5, 4), torch.zeros(4, 2), torch.zeros(5, 2, 2)),
            ValueError,
            r"h_post has shape \(4, 2\); x of shape \(5, 2, 4\) needs \(5, 2\)",
        ),
        (
            lambda: mhc.mhc_head(torch.zeros(5, 2, 4), torch.zeros(3, 8), torch.zeros(1), torch.zeros(2)),
            ValueError,
            r"phi has shape \(3, 8\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
