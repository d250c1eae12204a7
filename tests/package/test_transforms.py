"""PyTorch's transforms: tracing, batching, checkpointing. Each works or refuses in one sentence."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils.checkpoint import checkpoint

import mhc
from mhc.backends.reference import mhc_pre
from mhc.library import OPERATORS as ALL
from spy import HIDDEN, TENSORS, TOKENS, N, arguments, call, mapping, tensor

OPS = list(TENSORS)
OPERATORS = [operator for operator in ALL if operator.backward_inputs]
BATCH = 3


@pytest.fixture(autouse=True)
def no_graph_of_before():
    """Have PyTorch forget what it compiled, and which sizes it saw."""
    torch._dynamo.reset()


def connection():
    torch.manual_seed(0)
    return mhc.HyperConnection(nn.Linear(HIDDEN, HIDDEN), N, HIDDEN)


def samples(op, batched):
    """Return the operator's tensors without gradients; those at the places ``batched`` have a batch in front."""
    values = [value.detach() if isinstance(value, torch.Tensor) else value for value in arguments(op)]
    noise = torch.Generator().manual_seed(7)
    return [
        value + torch.randn(BATCH, *value.shape, generator=noise) if place in batched else value
        for place, value in enumerate(values)
    ]


def one_by_one(function, values, batched):
    outputs = [
        function(*(value[index] if place in batched else value for place, value in enumerate(values)))
        for index in range(BATCH)
    ]
    return [torch.stack(parts) for parts in zip(*outputs, strict=True)]


@pytest.mark.parametrize("op", OPS)
def test_vmap_over_tokens_is_one_call_and_over_parameters_a_loop(op):
    tensors = range(TENSORS[op])
    choices = [{0}, set(tensors)] + ([{1}, {0, 3}] if len(tensors) > 1 else [])
    for batched in choices:
        values = samples(op, batched)
        in_dims = tuple(0 if place in batched else None for place in range(len(values)))
        own = torch.func.vmap(lambda *v: call(op, *v), in_dims=in_dims)(*values)
        for one, other in zip(own, one_by_one(lambda *v: call(op, *v), values, batched), strict=True):
            torch.testing.assert_close(one, other)


def test_vmap_takes_a_batch_at_any_place():
    x, *rest = samples("mhc_pre", {0})
    own = torch.func.vmap(lambda v: mhc.mhc_pre(v, *rest[:4]), in_dims=2)(x.movedim(0, 2))
    expected = mhc.mhc_pre(x, *rest[:4])
    assert all(torch.equal(one, other) for one, other in zip(own, expected, strict=True))


@pytest.mark.parametrize("op", OPS)
def test_vmap_of_the_operator_itself_and_of_its_gradient(op):
    """Below the public functions: torch.ops.mhc, as other libraries call it."""
    operator = next(operator for operator in OPERATORS if operator.name == op)
    values = samples(op, {0})
    in_dims = (0, *(None,) * (len(values) - 1))
    outputs = torch.func.vmap(lambda *v: getattr(torch.ops.mhc, op)(*v, "reference"), in_dims=in_dims)(*values)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    count = len(operator.grads)
    kept = values if operator.keeps_inputs else []
    incoming = [*operator.kept(outputs), *outputs[:count]]
    given = [*kept[: TENSORS[op]], *incoming, *kept[TENSORS[op] :]]
    batched = {0, *range(len(kept[: TENSORS[op]]), len(kept[: TENSORS[op]]) + len(incoming))}
    for needs in ([True] * TENSORS[op], [True, *[False] * (TENSORS[op] - 1)])[: 2 if operator.needs else 1]:

        def backward(*v, needs=needs):
            asked = (needs,) if operator.needs else ()
            return tuple(getattr(torch.ops.mhc, f"{op}_backward")(*v, *asked, "reference"))

        own = torch.func.vmap(backward, in_dims=tuple(0 if place in batched else None for place in range(len(given))))
        for one, other in zip(own(*given), one_by_one(backward, given, batched), strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("op", OPS)
def test_gradients_of_samples(op):
    """vmap of grad: each sample has gradients of its own, also of parameters."""
    count = TENSORS[op]
    values = samples(op, {0})

    def loss(*tensors):
        return sum(output.square().sum() for output in call(op, *tensors, *values[count:]))

    gradient = torch.func.grad(loss, argnums=tuple(range(count)))
    own = torch.func.vmap(gradient, in_dims=(0, *(None,) * (count - 1)))(*values[:count])
    for one, other in zip(own, one_by_one(gradient, values[:count], {0}), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("op", OPS)
def test_func_grad_is_autograd_s_and_has_a_gradient(op):
    count = TENSORS[op]
    values = samples(op, ())

    def loss(*tensors):
        return sum(output.square().sum() for output in call(op, *tensors, *values[count:]))

    def second(*tensors):
        return sum(grad.square().sum() for grad in torch.func.grad(loss, argnums=tuple(range(count)))(*tensors))

    own = torch.func.grad(second, argnums=tuple(range(count)))(*values[:count])
    leaves = [value.clone().requires_grad_() for value in values[:count]]
    first = torch.autograd.grad(loss(*leaves), leaves, create_graph=True)
    expected = torch.autograd.grad(sum(grad.square().sum() for grad in first), leaves)
    for one, other in zip(own, expected, strict=True):
        assert other.abs().max() > 0
        torch.testing.assert_close(one, other)


def test_jacrev_is_the_equations_jacobian():
    x, *parameters = (value.detach() for value in arguments("mhc_pre")[:5])
    own = torch.func.jacrev(lambda v: mhc.mhc_pre(v, *parameters).h_in)(x)
    wide = [value.double() for value in (x, *parameters)]
    expected = torch.func.jacrev(lambda v: mhc_pre.forward(v, *wide[1:], 1e-6, 1e-6, 2.0, "fp32").h_in)(wide[0])
    torch.testing.assert_close(own.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", OPS)
def test_forward_mode_is_refused(op):
    values = samples(op, ())
    message = f"{op}: it has no forward-mode derivative"
    with pytest.raises(NotImplementedError, match=message):
        torch.func.jvp(lambda v: call(op, v, *values[1:]), (values[0],), (values[0],))
    with torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match=message):
        call(op, torch.autograd.forward_ad.make_dual(values[0], values[0]), *values[1:])


def test_forward_mode_elsewhere_does_not_concern_an_operator():
    x = samples("expand", ())[0]
    with torch.autograd.forward_ad.dual_level():
        assert mhc.expand(x, 2).shape == (TOKENS, 2, HIDDEN)


CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor")
TRACED = (*CHECKS, "test_aot_dispatch_dynamic")  # with sizes that are not known: seconds for each operator


@pytest.mark.parametrize(
    ("operator", "checks"),
    [
        *((operator, TRACED if operator.name == "mhc_pre" else CHECKS) for operator in OPERATORS),
        *(pytest.param(operator, TRACED, marks=pytest.mark.nightly) for operator in OPERATORS),
    ],
    ids=[f"{operator.name}{traced}" for traced in ("", ", traced") for operator in OPERATORS],
)
def test_the_gradient_is_well_registered(operator, checks):
    """Schema, fake tensors, autograd registration and tracing of the gradient itself, by PyTorch's own check."""
    values = arguments(operator.name)
    count = TENSORS[operator.name]
    outputs = getattr(torch.ops.mhc, operator.name)(*values, "reference")
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    grads = [tensor(*output.shape) for output in outputs[: len(operator.grads)]]
    saved = [output.detach() for output in operator.kept(outputs)]
    given = [*values[:count], *saved, *grads, *values[count:]] if operator.keeps_inputs else grads
    needs = [[True] * count] if operator.needs else []
    gradient = getattr(torch.ops.mhc, f"{operator.name}_backward").default
    torch.library.opcheck(gradient, (*given, *needs, "reference"), test_utils=checks)


def test_compiled_with_dynamic_tokens_it_is_never_compiled_again():
    counter = CompileCounterWithBackend("aot_eager")
    module = connection()
    compiled = torch.compile(copy.deepcopy(module), fullgraph=True, dynamic=True, backend=counter)
    graphs = []
    for lead in ((5, 3), (7, 2), (64, 9)):
        x = tensor(*lead, N, HIDDEN)
        out = compiled(x)
        out.square().sum().backward()
        own, x.grad = x.grad, None
        expected = module(x)
        expected.square().sum().backward()
        torch.testing.assert_close(out, expected)
        torch.testing.assert_close(own, x.grad)
        graphs.append(counter.frame_count)
    assert len(set(graphs)) == 1, "compiled for the first tokens and never again"


def test_an_exported_program_takes_any_number_of_tokens():
    module = nn.Sequential(connection(), mhc.HyperHead(N, HIDDEN))
    tokens = torch.export.Dim("tokens", min=2)
    exported = torch.export.export(module, (tensor(5, N, HIDDEN),), dynamic_shapes=({0: tokens},))
    for op in ("mhc_pre", "sinkhorn", "mhc_post", "mhc_head"):
        assert f"mhc.{op}" in exported.graph_module.code
    for count in (2, 33):
        x = tensor(count, N, HIDDEN)
        torch.testing.assert_close(exported.module()(x), module(x))


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_activation_checkpointing_gives_the_same_gradients(use_reentrant, compiled):
    module = connection()
    results = []
    for checkpointed in (False, True):
        function = torch.compile(module, backend="aot_eager") if compiled else module
        x = tensor(TOKENS, N, HIDDEN)
        out = checkpoint(function, x, use_reentrant=use_reentrant) if checkpointed else function(x)
        results.append(torch.autograd.grad(out.square().sum(), x) if not checkpointed else None)
        if checkpointed:
            module.zero_grad()
            out.square().sum().backward()
            results[-1] = (x.grad,)
            assert all(parameter.grad is not None for parameter in module.parameters())
    assert torch.equal(*(result[0] for result in results))


def test_a_dispatch_mode_sees_the_operators():
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    with Mode():
        mhc.mhc_pre(tensor(TOKENS, N, HIDDEN), *mapping(N * (N + 2), 3)).h_in.sum().backward()
    assert {"mhc.mhc_pre.default", "mhc.mhc_pre_backward.default"} <= set(seen)


def test_fake_tensors_need_no_kernel():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(5, N, HIDDEN, requires_grad=True)
        out = mhc.HyperConnection(nn.Identity(), N, HIDDEN)(x)
        out.sum().backward()
    assert x.grad.shape == x.shape


def test_deterministic_mode_changes_nothing_and_warns_of_nothing():
    results = []
    for deterministic in (False, True):
        torch.use_deterministic_algorithms(deterministic)
        try:
            x = tensor(TOKENS, N, HIDDEN)
            connection()(x).sum().backward()
        finally:
            torch.use_deterministic_algorithms(False)
        results.append(x.grad)
    assert torch.equal(*results)


def test_a_tensor_that_outlives_its_transform_is_taken_for_what_is_in_it():
    kept = []
    h_res = torch.randn(TOKENS, N, N)
    torch.func.grad(lambda value: (kept.append(value), value.square().sum())[1])(h_res)
    assert torch._C._functorch.is_functorch_wrapped_tensor(kept[0])
    results = []
    for matrix in (h_res, kept[0]):
        y = tensor(TOKENS, HIDDEN)
        out = mhc.mhc_post(tensor(TOKENS, N, HIDDEN).detach(), y, torch.ones(TOKENS, N), matrix)
        results.append((out.detach(), *torch.autograd.grad(out.square().sum(), y)))
    assert all(map(torch.equal, *results))
