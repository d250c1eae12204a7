"""``HyperConnection``, ``HyperStack``, ``HyperHead``: their options, their parameters, and what these start as."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import mhc
from mhc.library import execution
from spy import HIDDEN, N, Spy, tensor


def connection(**options):
    torch.manual_seed(0)
    return mhc.HyperConnection(nn.Linear(HIDDEN, HIDDEN), N, HIDDEN, **options)


@pytest.fixture
def streams():
    return tensor(2, 5, N, HIDDEN, requires_grad=False)


def test_the_state_of_earlier_versions_loads():
    names = {"phi", "alpha", "gamma", "bias", "layer.weight", "layer.bias"}
    assert set(connection().state_dict()) == names
    assert set(connection(gamma=False).state_dict()) == names - {"gamma"}
    assert set(mhc.HyperHead(N, HIDDEN).state_dict()) == {"phi", "alpha", "gamma", "bias"}


def test_without_gamma_it_is_gamma_of_ones(streams):
    assert torch.equal(connection()(streams), connection(gamma=False)(streams))
    ones, without = mhc.HyperHead(N, HIDDEN), mhc.HyperHead(N, HIDDEN, gamma=False)
    ones.load_state_dict(without.state_dict(), strict=False)
    assert torch.equal(ones(streams), without(streams))


def test_every_option_reaches_the_operators(streams):
    options = {
        "norm_eps": 1e-2,
        "pre_eps": 1e-1,
        "post_scale": 1.0,
        "precision": "tf32",
        "iterations": 2,
        "sinkhorn_eps": 1e-2,
        "form": "deepseek",
    }
    module = connection(gate=1.0, **options)
    h_in, h_post, logits = mhc.mhc_pre(
        streams, module.phi, module.alpha, module.bias, module.gamma, norm_eps=1e-2, pre_eps=1e-1, post_scale=1.0,
        precision="tf32",
    )  # fmt: skip
    h_res = mhc.sinkhorn(logits, iterations=2, eps=1e-2, form="deepseek")
    assert torch.equal(module(streams), mhc.mhc_post(streams, module.layer(h_in), h_post, h_res))
    for name, value in options.items():
        others = {key: other for key, other in options.items() if key != name}
        assert not torch.equal(connection(gate=1.0, **others)(streams), module(streams)), (name, value)


def test_main_grad_is_an_option_of_the_modules(streams):
    for module in (connection(main_grad=True, dtype=torch.bfloat16), mhc.HyperHead(N, HIDDEN, main_grad=True)):
        module.bfloat16()
        if isinstance(module, mhc.HyperConnection):
            module.layer.float()
        module(streams).sum().backward()
        for name, parameter in module.named_parameters(recurse=False):
            assert parameter.grad is None, name
            assert parameter.main_grad.dtype == torch.float32


def test_parameters_are_made_in_a_dtype_and_on_a_device():
    for module in (connection(dtype=torch.bfloat16), mhc.HyperHead(N, HIDDEN, dtype=torch.bfloat16)):
        assert {parameter.dtype for parameter in module.parameters(recurse=False)} == {torch.bfloat16}
    for make in (
        lambda **o: mhc.HyperConnection(nn.Identity(), N, HIDDEN, **o),
        lambda **o: mhc.HyperHead(N, HIDDEN, **o),
    ):
        module = make(device="meta")
        assert all(parameter.is_meta for parameter in module.parameters())
        module.to_empty(device="cpu")
        torch.manual_seed(0)
        module.reset_parameters()
        torch.manual_seed(0)
        expected = make()
        for (name, own), other in zip(module.named_parameters(), expected.parameters(), strict=True):
            assert torch.equal(own, other), name


@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_head_starts_as_the_mean_of_the_streams(n):
    x = tensor(7, n, HIDDEN, requires_grad=False)
    head = mhc.HyperHead(n, HIDDEN, gate=0.0)
    with torch.no_grad():
        torch.testing.assert_close(head(x), x.mean(dim=-2), rtol=0, atol=0.1 if n == 1 else 1e-5)


def test_the_head_trains(streams):
    head = mhc.HyperHead(N, HIDDEN)
    head(streams).square().sum().backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in head.parameters())
    assert head(streams.bfloat16()).dtype == torch.bfloat16


def test_what_is_printed_says_what_differs_from_the_defaults():
    assert connection().extra_repr() == f"streams={N}, hidden={HIDDEN}, backend=None"
    text = connection(gamma=False, form="deepseek", precision="tf32", backend="reference").extra_repr()
    assert text == f"streams={N}, hidden={HIDDEN}, gamma=False, form=deepseek, precision=tf32, backend=reference"
    assert str(mhc.HyperHead(N, HIDDEN)) == f"HyperHead(streams={N}, hidden={HIDDEN}, backend=None)"


@pytest.mark.parametrize("make", [lambda *sizes: mhc.HyperConnection(nn.Identity(), *sizes), mhc.HyperHead])
def test_no_streams_are_refused(make):
    with pytest.raises(ValueError, match=r"Hyper.*: 0 streams of 4; it needs at least one of each"):
        make(0, 4)


def test_the_initial_phi_has_rows_of_length_one():
    torch.manual_seed(0)
    phi = mhc.HyperConnection(nn.Identity(), 4, 256).phi
    assert phi.std().item() == pytest.approx(1 / math.sqrt(4 * 256), rel=0.05)


@pytest.fixture
def stack():
    layers = [connection(iterations=3), connection(gamma=False, post_scale=1.0), connection(form="liger")]
    for layer in layers:
        nn.init.normal_(layer.phi)
        nn.init.constant_(layer.alpha, 0.5)
    return mhc.HyperStack(layers)


@pytest.fixture
def calls(monkeypatch):
    spy = Spy()
    monkeypatch.setattr(execution, "load", spy)
    return lambda: [op for op, direction, _ in spy.calls if direction == "forward"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_stack_computes_what_its_layers_do_one_after_the_other(stack, streams, dtype, calls):
    results = []
    for run in (stack, nn.Sequential(*stack)):
        x = streams.to(dtype).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            out = run(x)
        results.append([out, *torch.autograd.grad(out.float().square().sum(), [x, *stack.parameters()])])
    tolerance = {} if dtype == torch.float32 else {"rtol": 5e-2, "atol": 5e-2}
    for own, other in zip(*results, strict=True):
        torch.testing.assert_close(own / other.abs().max(), other / other.abs().max(), **tolerance)
    assert "mhc_post_pre" not in calls(), "its backward would write the gradient of the streams into memory of its own"


def test_a_stack_without_gradients_runs_the_operator_of_two_layers(stack, streams, calls):
    with torch.no_grad():
        out = stack(streams)
        assert calls() == ["mhc_pre", "sinkhorn", *["mhc_post_pre", "sinkhorn"] * 2, "mhc_post"]
        torch.testing.assert_close(out, nn.Sequential(*stack)(streams))


def test_a_stack_runs_layer_by_layer_where_the_operator_does_not_fit(stack, streams, calls, monkeypatch):
    """A backend lacks it; two layers have other backends; what the layers keep is thrown away."""
    x = streams.clone().requires_grad_()
    expected = nn.Sequential(*stack)(x)
    with mhc.recomputation():
        assert torch.equal(stack(x), expected)
    with torch.no_grad():
        stack[1].backend = "reference"
        assert torch.equal(stack(x), expected)
        stack[1].backend = None
        monkeypatch.setattr("mhc.module.can_post_pre", lambda backend, device: False)
        assert torch.equal(stack(x), expected)
    assert "mhc_post_pre" not in calls()
    assert mhc.HyperStack()(x) is x


def test_a_compiled_stack_gives_the_same_numbers(stack, streams):
    compiled = torch.compile(stack, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(streams), stack(streams))


HOOKS = {
    "forward_pre": lambda layer, note: layer.register_forward_pre_hook(lambda *_: note()),
    "forward": lambda layer, note: layer.register_forward_hook(lambda *_: note()),
    "full_backward_pre": lambda layer, note: layer.register_full_backward_pre_hook(lambda *_: note()),
    "full_backward": lambda layer, note: layer.register_full_backward_hook(lambda *_: note()),
    "of all modules": lambda layer, note: nn.modules.module.register_module_forward_hook(
        lambda module, *_: note() if module is layer else None
    ),
}


@pytest.mark.parametrize("kind", HOOKS)
def test_hooks_of_a_layer_in_a_stack_run(stack, streams, calls, kind):
    x = streams.clone().requires_grad_()
    noted = []
    handle = HOOKS[kind](stack[1], lambda: noted.append(kind))
    try:
        out = stack(x)
        out.sum().backward()
    finally:
        handle.remove()
    assert noted == [kind]
    assert "mhc_post_pre" not in calls()
    assert torch.equal(out, nn.Sequential(*stack)(x))
    with torch.no_grad():
        stack(x)
    assert calls().count("mhc_post_pre") == 2, "the hook is gone"


def test_hooks_inside_of_a_wrapped_layer_run_in_the_operator_of_two_layers_too(stack, streams, calls):
    noted = []
    stack[1].layer.register_forward_hook(lambda *_: noted.append(1))
    with torch.no_grad():
        stack(streams)
    assert noted == [1]
    assert calls().count("mhc_post_pre") == 2


def test_a_layer_with_a_call_of_its_own_is_called(stack, streams):
    class Doubled(mhc.HyperConnection):
        def forward(self, x):
            return 2 * super().forward(x)

    plain, noted = stack(streams), []
    stack[2].forward = lambda x: x
    assert torch.equal(stack(streams), nn.Sequential(*stack[:2])(streams))
    del stack[2].forward
    stack[0].compile(backend=lambda graph, _: lambda *tensors: noted.append(1) or graph(*tensors))
    torch.testing.assert_close(stack(streams), plain)
    assert noted == [1]
    stack[0]._compiled_call_impl = None
    stack[2].__class__ = Doubled
    torch.testing.assert_close(stack(streams), 2 * plain)
    stack.append(nn.Identity())
    torch.testing.assert_close(stack(streams), 2 * plain)
