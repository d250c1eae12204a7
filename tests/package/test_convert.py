"""Weights of other layouts, against the equations of the code that they are written for.

The equations are in float64 and are written from their description. They share no code with the package, and use each
library's own layout. Inputs and weights are random fp32.
"""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

import mhc
from mhc import convert

TOKENS, HIDDEN = 5, 8
STREAMS = [1, 2, 4, 8]
BUDGET = 1e-5  # of the largest value: 84 rounding errors of fp32; Sinkhorn alone has 20 iterations of 6 operations


def draw(*shape, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed + 1000 * math.prod(shape))
    return (scale * torch.randn(*shape, generator=generator, dtype=torch.float64)).float()


def assert_near(values, golden, budget=BUDGET):
    assert values.dtype == torch.float32
    assert values.shape == golden.shape
    assert (values.double() - golden).abs().max() <= budget * golden.abs().max().clamp(min=1)


# The published equations.


def deepseek_mixes(x, fn, norm_weight, norm_eps):
    """Project the flattened streams, and divide by their root mean square; the weight multiplies fn."""
    v = x.flatten(-2)
    mean_square = v.pow(2).sum(-1, keepdim=True) / v.shape[-1]
    weights = fn if norm_weight is None else fn * norm_weight
    return torch.einsum("tk,mk->tm", v, weights) / torch.sqrt(mean_square + norm_eps)


def rows_then_columns(logits, iterations, eps):
    """Normalise as both libraries do: softmax of each row + eps, columns, then rows and columns in turn."""
    e = torch.exp(logits - logits.max(-1, keepdim=True).values)
    matrix = e / e.sum(-1, keepdim=True) + eps
    for iteration in range(iterations):
        if iteration:
            matrix = matrix / (matrix.sum(-1, keepdim=True) + eps)
        matrix = matrix / (matrix.sum(-2, keepdim=True) + eps)
    return matrix


def deepseek_layer(x, fn, scale, base, norm_weight, layer, options):
    """Compute one connection of DeepSeek's code around ``layer``: comb[m, n] carries stream m into stream n."""
    n = x.shape[-2]
    mixes = deepseek_mixes(x, fn, norm_weight, options["norm_eps"])
    pre = 1 / (1 + torch.exp(-(mixes[:, :n] * scale[0] + base[:n]))) + options["pre_eps"]
    post = options["post_scale"] / (1 + torch.exp(-(mixes[:, n : 2 * n] * scale[1] + base[n : 2 * n])))
    comb = (mixes[:, 2 * n :] * scale[2] + base[2 * n :]).reshape(-1, n, n)
    comb = rows_then_columns(comb, options["iterations"], options["sinkhorn_eps"])
    y = layer((pre.unsqueeze(-1) * x).sum(-2))
    return torch.stack(
        [post[:, k, None] * y + sum(comb[:, m, k, None] * x[:, m] for m in range(n)) for k in range(n)], dim=1
    )


def deepseek_head(x, fn, scale, base, norm_weight, norm_eps, pre_eps):
    mixes = deepseek_mixes(x, fn, norm_weight, norm_eps)
    weights = 1 / (1 + torch.exp(-(mixes * scale + base))) + pre_eps
    return sum(weights[:, i, None] * x[:, i] for i in range(x.shape[1]))


def liger_layer(x, phi, b, alpha_pre, alpha_post, alpha_res, layer, options):
    """Compute one ``LigerMHC`` around ``layer``: h_res[o, i] carries stream i into stream o."""
    n = x.shape[-2]
    v = x.flatten(-2)
    mix = (v @ phi) / torch.sqrt(v.pow(2).mean(-1, keepdim=True) + options["rms_eps"])
    h_pre = torch.sigmoid(mix[:, :n] * alpha_pre + b[:n]) + options["pre_eps"]
    h_post = torch.sigmoid(mix[:, n : 2 * n] * alpha_post + b[n : 2 * n]) * options["post_mult"]
    logits = (mix[:, 2 * n :] * alpha_res + b[2 * n :]).reshape(-1, n, n)
    h_res = rows_then_columns(logits, options["tmax"], options["sinkhorn_eps"])
    y = layer(torch.einsum("ti,tic->tc", h_pre, x))
    return torch.einsum("toi,tic->toc", h_res, x) + torch.einsum("to,tc->toc", h_post, y)


def megatron_layer(x, weights, layer, options):
    """Compute one ``HyperConnectionModule``: the norm divides by the root plus an eps, and the matrix is transposed."""
    n, v = x.shape[-2], x.flatten(-2)
    root = v.pow(2).sum(-1, keepdim=True).sqrt() / math.sqrt(v.shape[-1])
    gates = [weights[name].expand(count) for name, count in zip(GATES, (n, n, n * n), strict=True)]
    h = (v @ weights["mapping_proj.weight"].T) / (root + options["root_eps"]) * torch.cat(gates) + weights["bias"]
    pre, post, logits = h.split([n, n, n * n], dim=-1)
    matrix = rows_then_columns(logits.unflatten(-1, (n, n)), options["iterations"], options["eps"])
    y = layer(((torch.sigmoid(pre) + options["eps"])[..., None] * x).sum(-2))
    return matrix.mT @ x + 2 * torch.sigmoid(post)[..., None] * y[:, None]


def transformer_engine_layer(x, phi, alpha, beta, norm_weight, layer, iterations):
    """Compute one connection of streams ``[tokens, hidden, n]``; Sinkhorn in logarithms, rows first."""
    n, v = x.shape[-1], x.flatten(1)
    weights = phi if norm_weight is None else phi * norm_weight
    h = v @ weights[: beta.shape[1]].T / torch.sqrt(v.pow(2).mean(-1, keepdim=True) + torch.finfo(torch.float32).eps)
    gate = torch.cat([alpha[k].expand(count) for k, count in enumerate((n, n, n * n))])
    pre, post, logits = (h * gate + beta).split([n, n, n * n], dim=-1)
    matrix = logits.unflatten(-1, (n, n))
    for _ in range(iterations):
        for dim in (-1, -2):
            matrix = matrix - matrix.logsumexp(dim, keepdim=True)
    y = layer((x @ torch.sigmoid(pre)[..., None])[..., 0])
    return y[..., None] * (2 * torch.sigmoid(post))[:, None] + x @ matrix.exp()


# Random weights in each layout. With these scales, Sinkhorn has not converged after its iterations.


def deepseek_tensors(n, gamma=False, prefix="", scale=(0.5, 0.7, 2.0)):
    mixes, width = n * (n + 2), n * HIDDEN
    tensors = {
        "fn": draw(mixes, width, scale=1 / math.sqrt(width)),
        "scale": torch.tensor(scale),
        "base": draw(mixes, seed=1),
    }
    if gamma:
        tensors["norm_weight"] = 1 + draw(width, seed=2, scale=0.2)
    return {prefix + name: tensor for name, tensor in tensors.items()}


def head_tensors(n, gamma=False, prefix=""):
    width = n * HIDDEN
    tensors = {"fn": draw(n, width), "scale": torch.tensor([0.5]), "base": draw(n, seed=1)}
    if gamma:
        tensors["norm_weight"] = 1 + draw(width, seed=2, scale=0.2)
    return {prefix + name: tensor for name, tensor in tensors.items()}


def liger_tensors(n, prefix="", dtype=torch.float32):
    mixes, width = n * (n + 2), n * HIDDEN
    tensors = {
        "phi": draw(width, mixes, scale=1 / math.sqrt(width)).to(dtype),
        "b": draw(mixes, seed=1),
        "alpha_pre": torch.tensor(0.5),
        "alpha_post": torch.tensor(0.7),
        "alpha_res": torch.tensor(2.0),
    }
    return {prefix + name: tensor for name, tensor in tensors.items()}


GATES = ("alpha_pre", "alpha_post", "alpha_res")


def megatron_tensors(n, prefix=""):
    mixes, width = n * (n + 2), n * HIDDEN
    tensors = {"mapping_proj.weight": draw(mixes, width, scale=1 / math.sqrt(width)), "bias": draw(mixes, seed=1)}
    tensors |= {name: torch.tensor([gate]) for name, gate in zip(GATES, (0.5, 0.7, 2.0), strict=True)}
    return {prefix + name: tensor for name, tensor in tensors.items()}


def transformer_engine_tensors(n, gamma=False, rows=None, prefix=""):
    mixes, width = n * (n + 2), n * HIDDEN
    tensors = {
        "phi": draw(rows or mixes, width, scale=1 / math.sqrt(width)),
        "alpha": torch.tensor([0.5, 0.7, 2.0]),
        "beta": draw(1, mixes, seed=1),
    }
    if gamma:
        tensors["norm_weight"] = 1 + draw(width, seed=2, scale=0.2)
    return {prefix + name: tensor for name, tensor in tensors.items()}


def leaves(tensors, dtype):
    return {name: tensor.detach().to(dtype).requires_grad_() for name, tensor in tensors.items()}


def layer_of(dtype):
    weight = draw(HIDDEN, HIDDEN, seed=3).to(dtype)
    return lambda h: torch.tanh(h @ weight)


def compare(tensors, ours, golden, shape):
    """Compare outputs, the gradient of x, and the gradients of the tensors in their own layout."""
    results = []
    for function, dtype in ((ours, torch.float32), (golden, torch.float64)):
        x = draw(TOKENS, *shape, seed=4).to(dtype).requires_grad_()
        weights = leaves(tensors, dtype)
        out = function(x, weights, layer_of(dtype))
        out.backward(draw(*out.shape, seed=5).to(dtype))
        results.append([out.detach(), x.grad, *(weight.grad for weight in weights.values())])
    for value, expected in zip(*results, strict=True):
        assert_near(value, expected)


OPTIONS = {"norm_eps": 1e-3, "pre_eps": 1e-2, "post_scale": 1.0, "iterations": 3, "sinkhorn_eps": 1e-2}
RELEASED = {"norm_eps": 1e-6, "pre_eps": 1e-6, "post_scale": 2.0, "iterations": 20, "sinkhorn_eps": 1e-6}


@pytest.mark.parametrize("options", [OPTIONS, RELEASED], ids=["options", "released"])
@pytest.mark.parametrize("gamma", [False, True])
@pytest.mark.parametrize("n", STREAMS)
def test_a_connection_of_deepseek_s_layout_gives_its_equations_numbers_and_gradients(n, gamma, options):
    def ours(x, weights, layer):
        return convert.from_deepseek(weights, **options).apply(x, layer)

    def golden(x, weights, layer):
        return deepseek_layer(x, *(weights.get(k) for k in ("fn", "scale", "base", "norm_weight")), layer, options)

    compare(deepseek_tensors(n, gamma), ours, golden, (n, HIDDEN))


@pytest.mark.parametrize("gamma", [False, True])
@pytest.mark.parametrize("n", STREAMS)
def test_a_head_of_deepseek_s_layout_gives_its_equation_s_numbers_and_gradients(n, gamma):
    def ours(x, weights, layer):
        return convert.head_from_deepseek(weights, "", norm_eps=1e-3, pre_eps=1e-2).read(x)

    def golden(x, weights, layer):
        return deepseek_head(x, *(weights.get(k) for k in ("fn", "scale", "base", "norm_weight")), 1e-3, 1e-2)

    compare(head_tensors(n, gamma), ours, golden, (n, HIDDEN))


LIGER_OPTIONS = {"tmax": 3, "rms_eps": 1e-3, "pre_eps": 1e-2, "sinkhorn_eps": 1e-2, "post_mult": 1.5}
LIGER_DEFAULTS = {"tmax": 20, "rms_eps": 1e-6, "pre_eps": 0.0, "sinkhorn_eps": 1e-6, "post_mult": 2.0}


@pytest.mark.parametrize("options", [LIGER_OPTIONS, LIGER_DEFAULTS], ids=["options", "defaults"])
@pytest.mark.parametrize("n", STREAMS)
def test_a_connection_of_liger_s_layout_gives_its_equations_numbers_and_gradients(n, options):
    def ours(x, weights, layer):
        return convert.from_liger(weights, **options).apply(x, layer)

    def golden(x, weights, layer):
        return liger_layer(x, *weights.values(), layer, options)

    compare(liger_tensors(n), ours, golden, (n, HIDDEN))


MEGATRON = {"two passes": ({"root_eps": 1e-6}, {}), "large eps": ({"root_eps": 0.0}, {"norm_eps": 0.0, "eps": 1e-2})}


@pytest.mark.parametrize("iterations", [3, 20])
@pytest.mark.parametrize("kind", MEGATRON)
@pytest.mark.parametrize("n", STREAMS)
def test_a_connection_of_megatron_s_layout_gives_its_equations_numbers_and_gradients(n, kind, iterations):
    theirs, options = MEGATRON[kind]
    theirs = {"iterations": iterations, "eps": options.get("eps", 1e-6), **theirs}

    def ours(x, weights, layer):
        return convert.from_megatron(weights, iterations=iterations, **options).apply(x, layer)

    compare(megatron_tensors(n), ours, lambda *given: megatron_layer(*given, theirs), (n, HIDDEN))


@pytest.mark.parametrize(("n", "rows"), [(2, None), (4, None), (4, 32)], ids=["2", "4", "padded"])
@pytest.mark.parametrize("gamma", [False, True])
@pytest.mark.parametrize("iterations", [3, 20])
def test_a_connection_of_transformer_engine_s_layout_gives_its_numbers_and_gradients(n, rows, gamma, iterations):
    def ours(x, weights, layer):
        return convert.from_transformer_engine(weights, iterations=iterations).apply(x.mT.contiguous(), layer).mT

    def golden(x, weights, layer):
        given = (weights.get(name) for name in ("phi", "alpha", "beta", "norm_weight"))
        return transformer_engine_layer(x, *given, layer, iterations)

    compare(transformer_engine_tensors(n, gamma, rows), ours, golden, (HIDDEN, n))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_weights_are_used_as_they_are_and_get_gradients_of_their_dtype(dtype):
    tensors = leaves(liger_tensors(4, dtype=dtype), torch.float32) | {"phi": liger_tensors(4, dtype=dtype)["phi"]}
    tensors["phi"].requires_grad_()
    wide = leaves(tensors, torch.float32)
    outs = []
    for each in (tensors, wide):
        outs.append(convert.from_liger(each).apply(draw(TOKENS, 4, HIDDEN), layer_of(torch.float32)))
        outs[-1].square().sum().backward()
    assert torch.equal(*outs)
    assert torch.equal(tensors["phi"].grad, wide["phi"].grad.to(dtype))


@pytest.mark.parametrize("function", [convert.from_deepseek, convert.from_liger])
def test_the_defaults_are_those_of_deepseek_v4_and_of_liger(function):
    tensors = deepseek_tensors(4) if function is convert.from_deepseek else liger_tensors(4)
    deepseek = {**RELEASED, "form": "deepseek"}
    liger = {**RELEASED, "pre_eps": 0.0, "form": "liger"}
    assert function(tensors).options == (deepseek if function is convert.from_deepseek else liger)


# What would go unseen if the forms and orientations agreed anyway.


def test_the_forms_of_sinkhorn_and_their_orientations_have_numbers_of_their_own():
    """After three iterations on these logits, no other form or orientation can pass for the right one."""
    weights = convert.from_deepseek(deepseek_tensors(4, scale=(0.5, 0.7, 10.0)), iterations=3)
    x = draw(TOKENS, 4, HIDDEN)
    paper, deepseek, liger = (
        dataclasses.replace(weights, form=form, sinkhorn_eps=None).coefficients(x).h_res for form in convert.FORMS
    )
    assert (paper - deepseek).abs().max() > 1e-2  # by eps alone: it decides where elements of a column nearly vanish
    for matrix, row, column in ((paper, -1, -2), (deepseek, -1, -2), (liger, -2, -1)):
        assert (matrix.sum(row) - 1).abs().max() < 1e-5
        assert (matrix.sum(column) - 1).abs().max() > 1e-2
    assert (liger - deepseek).abs().max() > 1e-2
    assert (liger.mT - deepseek).abs().max() > 1e-2


def test_the_transposed_rows_are_those_of_the_residual_matrix_alone():
    tensors = {"fn": torch.arange(8.0).unsqueeze(1).repeat(1, 2), "scale": torch.ones(3), "base": torch.arange(8.0)}
    weights = convert.from_deepseek(tensors)
    order = [0, 1, 2, 3, 4, 6, 5, 7]
    assert weights.bias.tolist() == order
    assert weights.phi[:, 0].tolist() == order
    assert weights.phi[:, 1].tolist() == order


# Round trips.


def assert_same(tensors, others):
    assert tensors.keys() == others.keys()
    for name, tensor in tensors.items():
        other = others[name]
        assert (other.dtype, other.shape, other.is_contiguous()) == (tensor.dtype, tensor.shape, True)
        assert torch.equal(other.reshape(-1).view(torch.uint8), tensor.reshape(-1).view(torch.uint8)), name


def with_special_values(tensors, name):
    """Put in values that arithmetic would change: a negative zero, an infinity, a subnormal, a NaN with a payload."""
    flat = tensors[name].view(-1)
    flat[:3] = torch.tensor([-0.0, math.inf, 1e-42])
    flat.view(torch.int32)[3] = 0x7FC12345
    return tensors


@pytest.mark.parametrize("gamma", [False, True])
@pytest.mark.parametrize("n", STREAMS)
def test_a_round_trip_of_deepseek_s_layout_is_bit_exact(n, gamma):
    tensors = with_special_values(deepseek_tensors(n, gamma, "a."), "a.fn")
    weights = convert.from_deepseek(tensors, "a.")
    assert_same(tensors, convert.to_deepseek(weights, "a."))
    assert_same(weights.tensors, convert.from_deepseek(convert.to_deepseek(weights)).tensors)


@pytest.mark.parametrize("gamma", [False, True])
@pytest.mark.parametrize("n", STREAMS)
def test_a_round_trip_of_a_head_is_bit_exact(n, gamma):
    tensors = with_special_values(head_tensors(n, gamma, "hc_head_"), "hc_head_fn")
    assert_same(tensors, convert.head_to_deepseek(convert.head_from_deepseek(tensors)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("n", STREAMS)
def test_a_round_trip_of_liger_s_layout_is_bit_exact(n, dtype):
    tensors = liger_tensors(n, "a.", dtype)
    weights = convert.from_liger(tensors, "a.")
    assert_same(tensors, convert.to_liger(weights, "a."))
    assert_same(weights.tensors, convert.from_liger(convert.to_liger(weights)).tensors)


@pytest.mark.parametrize("n", STREAMS)
def test_round_trips_of_the_layouts_of_megatron_and_transformer_engine_are_bit_exact(n):
    tensors = with_special_values(megatron_tensors(n, "a."), "a.mapping_proj.weight")
    assert_same(tensors, convert.to_megatron(convert.from_megatron(tensors, "a."), "a."))
    for gamma in (False, True):
        tensors = with_special_values(transformer_engine_tensors(n, gamma, prefix="a."), "a.phi")
        weights = convert.from_transformer_engine(tensors, "a.")
        assert_same(tensors, convert.to_transformer_engine(weights, "a."))
        assert_copied(tensors.values(), convert.to_transformer_engine(weights, "a.").values())


def assert_copied(tensors, others):
    for tensor, other in zip(tensors, others, strict=True):
        assert tensor.untyped_storage().data_ptr() != other.untyped_storage().data_ptr()


def test_tensors_converted_from_and_to_deepseek_s_layout_are_copies():
    tensors, head = deepseek_tensors(2, gamma=True), head_tensors(2, gamma=True)
    weights, head_weights = convert.from_deepseek(tensors), convert.head_from_deepseek(head, "")
    assert_copied(tensors.values(), weights.tensors.values())
    assert_copied(weights.tensors.values(), convert.to_deepseek(weights).values())
    assert_copied(head.values(), head_weights.tensors.values())
    assert_copied(head_weights.tensors.values(), convert.head_to_deepseek(head_weights).values())


def test_tensors_converted_from_and_to_liger_s_layout_are_copies():
    """The projections are views whose transposes are contiguous as they are."""
    tensors = liger_tensors(2)
    tensors["phi"] = tensors["phi"].T.contiguous().T
    weights = convert.from_liger(tensors)
    assert_copied((tensors["phi"], tensors["b"]), (weights.phi, weights.bias))
    weights = dataclasses.replace(weights, phi=weights.phi.T.contiguous().T)
    assert_copied((weights.phi, weights.bias, *weights.alpha), convert.to_liger(weights).values())


def test_gradients_in_our_layout_convert_to_the_other_one():
    tensors = deepseek_tensors(4, gamma=True)
    theirs = leaves(tensors, torch.float32)
    x = draw(TOKENS, 4, HIDDEN)
    convert.from_deepseek(theirs).apply(x, layer_of(torch.float32)).square().sum().backward()

    weights = convert.from_deepseek(tensors)
    ours = dataclasses.replace(weights, **leaves(weights.tensors, torch.float32))
    ours.apply(x, layer_of(torch.float32)).square().sum().backward()
    grads = dataclasses.replace(weights, **{name: tensor.grad for name, tensor in ours.tensors.items()})
    assert_same({name: tensor.grad for name, tensor in theirs.items()}, convert.to_deepseek(grads))


# Modules.


@pytest.mark.parametrize("gamma", [False, True])
def test_a_module_has_the_weights_and_options_and_gives_them_back(gamma):
    weights = convert.from_deepseek(deepseek_tensors(4, gamma), **OPTIONS)
    state = torch.get_rng_state()
    connection = weights.module(torch.nn.Tanh(), backend="reference")
    assert torch.equal(torch.get_rng_state(), state)
    x = draw(TOKENS, 4, HIDDEN)
    assert torch.equal(connection(x), weights.apply(x, torch.tanh))
    assert connection.backend == "reference"
    assert all(parameter.requires_grad for parameter in connection.parameters())
    assert_copied(weights.tensors.values(), (getattr(connection, name) for name in weights.tensors))

    again = convert.ConnectionWeights.of_module(connection)
    assert again.options == weights.options
    assert_same(weights.tensors, again.tensors)
    assert_copied(again.tensors.values(), (getattr(connection, name) for name in weights.tensors))
    assert not again.phi.requires_grad


LAYOUTS = {
    "deepseek": lambda: convert.from_deepseek(deepseek_tensors(4, gamma=True), **OPTIONS),
    "megatron": lambda: convert.from_megatron(megatron_tensors(4), norm_eps=1e-3),
    "transformer engine": lambda: convert.from_transformer_engine(transformer_engine_tensors(4)),
    "liger": lambda: convert.from_liger(liger_tensors(4)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_module_takes_the_weight_of_the_norm_before_its_layer(layout):
    weights, weight = LAYOUTS[layout](), (1 + draw(HIDDEN, seed=6)).to(torch.bfloat16)
    connection = weights.module(torch.nn.Tanh(), weight)
    assert not any(parameter.is_meta for parameter in connection.parameters())
    assert_copied([weight], [connection.norm_weight])
    assert torch.equal(connection.norm_weight, weight)
    assert "norm=True" in connection.extra_repr()
    x = draw(TOKENS, 4, HIDDEN)
    normed = weights.apply(x, lambda h: torch.tanh(torch.rms_norm(h, (HIDDEN,), weight.float(), weights.norm_eps)))
    assert_near(connection(x).detach(), normed.double())
    again = convert.ConnectionWeights.of_module(connection)
    assert again.options == weights.options
    assert_same(weights.tensors, again.tensors)
    assert torch.equal(again.module(torch.nn.Tanh(), connection.norm_weight)(x), connection(x))


def test_a_module_has_a_norm_where_its_weight_is_given_and_nowhere_else():
    weights, layer = convert.from_deepseek(deepseek_tensors(2)), torch.nn.Identity()
    assert weights.module(layer, norm=False).norm_weight is None
    assert weights.module(layer, torch.ones(HIDDEN), norm=True).norm_weight is not None
    for norm_weight, norm in ((None, True), (torch.ones(HIDDEN), False)):
        with pytest.raises(ValueError, match=r"module: norm=True needs norm_weight, .* so it must be given"):
            weights.module(layer, norm_weight, norm=norm)
    with pytest.raises(ValueError, match=r"ConnectionWeights\.module: norm_weight has shape \(3,\)"):
        weights.module(layer, torch.ones(3))


@pytest.mark.parametrize("gamma", [False, True])
def test_a_module_of_a_head_has_the_weights_and_options_and_gives_them_back(gamma):
    weights = convert.head_from_deepseek(head_tensors(4, gamma), "", norm_eps=1e-3, pre_eps=1e-2)
    head = weights.module()
    x = draw(TOKENS, 4, HIDDEN)
    assert torch.equal(head(x), weights.read(x))
    again = convert.HeadWeights.of_module(head)
    assert again.options == weights.options == {"norm_eps": 1e-3, "pre_eps": 1e-2}
    assert_same(weights.tensors, again.tensors)


def test_a_module_holds_weights_of_several_dtypes_in_one_that_holds_them_all():
    tensors = deepseek_tensors(2)
    tensors["fn"] = tensors["fn"].to(torch.bfloat16)
    tensors["base"] = tensors["base"].to(torch.float16)
    weights = convert.from_deepseek(tensors)
    connection = weights.module(torch.nn.Identity())
    for name, tensor in weights.tensors.items():
        assert torch.equal(getattr(connection, name), tensor.float())


def test_a_module_s_options_are_those_that_the_weights_have_not():
    with pytest.raises(TypeError, match="multiple values for keyword argument 'device'"):
        convert.from_deepseek(deepseek_tensors(2)).module(torch.nn.Identity(), device="cpu")


def test_a_module_computes_liger_s_form():
    weights = convert.from_liger(liger_tensors(2))
    x, layer = draw(TOKENS, 2, HIDDEN).float(), torch.nn.Identity()
    assert torch.equal(weights.module(layer)(x), weights.apply(x, layer))


# Whole models.


def model_tensors(attention, feedforward, head):
    return {
        "embed.weight": draw(3, HIDDEN).to(torch.bfloat16),
        "layers.0.attn.wq_a.weight": draw(3, 3).to(torch.float8_e4m3fn),
        "layers.0.attn.wq_a.scale": draw(1),
        **deepseek_tensors(4, prefix=attention),
        **deepseek_tensors(4, prefix=feedforward, scale=(0.1, 0.2, 0.3)),
        **head_tensors(4, prefix=head),
    }


PREFIXES = {
    "released": ("layers.0.hc_attn_", "layers.0.hc_ffn_", "hc_head_"),
    "transformers": ("model.layers.0.attn_hc.", "model.layers.0.ffn_hc.", "model.hc_head.hc_"),
    "draft": ("mtp.0.hc_attn_", "mtp.0.hc_ffn_", "mtp.0.hc_head_"),
}


@pytest.mark.parametrize("names", PREFIXES)
def test_a_model_s_connections_and_heads_are_found_by_their_names(names):
    tensors = model_tensors(*PREFIXES[names])
    converted = convert.model_from_deepseek(tensors, norm_eps=1e-5, iterations=7)
    assert tuple(converted) == PREFIXES[names]
    *connections, head = converted.values()
    for prefix, weights in zip(PREFIXES[names], connections, strict=False):
        assert (weights.norm_eps, weights.iterations, weights.streams, weights.hidden) == (1e-5, 7, 4, HIDDEN)
        assert_same(weights.tensors, convert.from_deepseek(tensors, prefix).tensors)
    assert isinstance(head, convert.HeadWeights)
    assert (head.norm_eps, head.streams, head.hidden) == (1e-5, 4, HIDDEN)
    assert torch.equal(head.phi, tensors[PREFIXES[names][2] + "fn"])


CONFIG = {"model_type": "deepseek_v4", "hc_mult": 4, "hc_eps": 1e-5, "hc_sinkhorn_iters": 12, "rms_norm_eps": 1e-4}


@pytest.mark.parametrize("nested", [False, True])
def test_the_options_come_from_the_model_s_configuration(nested):
    options = convert.deepseek_options({"model_type": "glm5_next", "text_config": CONFIG} if nested else CONFIG)
    expected = {"norm_eps": 1e-4, "pre_eps": 1e-5, "post_scale": 2.0, "iterations": 12, "sinkhorn_eps": 1e-5}
    assert options == expected
    assert convert.from_deepseek(deepseek_tensors(4), **options).options == {**expected, "form": "deepseek"}


def test_the_options_of_deepseek_s_own_code_have_another_name_for_the_norm():
    config = {"norm_eps": 1e-20, "hc_eps": 1e-6, "hc_sinkhorn_iters": 20}
    assert convert.deepseek_options(config)["norm_eps"] == 1e-20


# gamma.


@pytest.mark.parametrize("shape", [(4, HIDDEN), (4 * HIDDEN,)])
def test_a_folded_gamma_gives_the_same_numbers_and_gradient_of_x(shape):
    weights = convert.from_deepseek(deepseek_tensors(4, gamma=True))
    folded = dataclasses.replace(weights, phi=mhc.fold_gamma(weights.phi, weights.gamma.view(shape)), gamma=None)
    outputs = []
    for each in (weights, folded):
        x = draw(TOKENS, 4, HIDDEN).requires_grad_()
        out = each.apply(x, layer_of(torch.float32))
        out.square().sum().backward()
        outputs.append((out.detach(), x.grad))
    for value, expected in zip(*outputs, strict=True):
        assert_near(value, expected.double())
    unweighted = dataclasses.replace(weights, gamma=None)
    assert (unweighted.apply(x, layer_of(torch.float32)) - out).abs().max() > 1e-3


def test_folding_leaves_r_alone_and_passes_gradients_to_both_factors():
    phi, gamma = torch.ones(8, 2 * HIDDEN, requires_grad=True), torch.full((2, HIDDEN), 3.0, requires_grad=True)
    folded = mhc.fold_gamma(phi, gamma)
    assert torch.equal(folded, torch.full((8, 2 * HIDDEN), 3.0))
    folded.sum().backward()
    assert torch.equal(phi.grad, torch.full_like(phi, 3.0))
    assert torch.equal(gamma.grad, torch.full_like(gamma, 8.0))


def test_folding_keeps_the_dtype_of_phi():
    phi = draw(8, 2 * HIDDEN).to(torch.bfloat16)
    gamma = draw(2, HIDDEN, seed=1)
    folded = mhc.fold_gamma(phi, gamma)
    assert torch.equal(folded, (phi.double() * gamma.double().flatten()).float().to(torch.bfloat16))


def test_weights_fold_their_gamma_once():
    weights = convert.from_deepseek(deepseek_tensors(2, gamma=True))
    folded = weights.folded()
    assert folded.gamma is None
    assert folded.folded() is folded
    assert "norm_weight" not in convert.to_deepseek(folded)
    head = convert.head_from_deepseek(head_tensors(2, gamma=True), "").folded()
    assert head.gamma is None


# Errors.


def changed(tensors, **changes):
    return {
        name: changes.get(name, tensor) for name, tensor in tensors.items() if changes.get(name, tensor) is not None
    }


WRONG = {
    "no scale": ({"scale": None}, LookupError, "there is no tensor 'scale' among 3"),
    "no base": ({"base": None}, LookupError, "there is no tensor 'base'"),
    "a mix too few": ({"fn": torch.ones(7, 16), "base": torch.ones(7)}, ValueError, r"fn has shape \(7, 16\)"),
    "columns": ({"fn": torch.ones(8, 15)}, ValueError, r"has \[n²\+2n, n·hidden\]"),
    "no dimension": ({"fn": torch.ones(())}, ValueError, r"fn has shape \(\) .*and \(3,\)$"),
    "no columns": ({"fn": torch.ones(8, 0)}, ValueError, r"fn has shape \(8, 0\)"),
    "three dimensions": ({"fn": torch.ones(8, 2, 8)}, ValueError, r"fn has shape \(8, 2, 8\)"),
    "transposed": ({"fn": torch.ones(16, 8)}, ValueError, r"fn has shape \(16, 8\) .*a connection of n streams has"),
    "scale": ({"scale": torch.ones(3, 1)}, ValueError, r"scale has shape \(3, 1\)"),
    "base": ({"base": torch.ones(9)}, ValueError, r"base has shape \(9,\).*needs \(8,\)"),
    "norm_weight": ({"norm_weight": torch.ones(8)}, ValueError, r"norm_weight has shape \(8,\).*needs \(16,\)"),
    "quantized": ({"fn": torch.ones(8, 16).to(torch.float8_e4m3fn)}, TypeError, "fn is torch.float8_e4m3fn"),
    "wide": ({"base": torch.ones(8, dtype=torch.float64)}, TypeError, "base is torch.float64"),
    "a head": ({"fn": torch.ones(2, 16), "scale": torch.ones(1)}, ValueError, "this is a head"),
    "no residual": ({"fn": torch.ones(4, 16), "scale": torch.ones(2)}, ValueError, "does not mix the streams"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_wrong_tensors_of_deepseek_s_layout_are_refused(fault):
    changes, error, message = WRONG[fault]
    with pytest.raises(error, match=f"from_deepseek: .*{message}"):
        convert.from_deepseek(changed(deepseek_tensors(2, gamma=True), **changes))


def test_a_wrong_prefix_is_answered_with_names_that_are_near():
    with pytest.raises(LookupError, match=r"no tensor 'layer\.0\.hc_attn_fn' .*near it are layers\.0\.hc_attn_fn"):
        convert.from_deepseek(model_tensors(*PREFIXES["released"]), "layer.0.hc_attn_")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scale": torch.ones(3)}, "this is a connection"),
        ({"fn": torch.ones(2, 15)}, r"has \[n, n·hidden\] and \(1,\)$"),
        ({"fn": torch.ones(())}, r"fn has shape \(\)"),
        ({"base": torch.ones(3)}, r"base has shape \(3,\).*needs \(2,\)"),
        ({"norm_weight": torch.ones(15)}, r"norm_weight has shape \(15,\)"),
    ],
)
def test_wrong_tensors_of_a_head_are_refused(changes, message):
    with pytest.raises(ValueError, match=f"head_from_deepseek: .*{message}"):
        convert.head_from_deepseek(changed(head_tensors(2, gamma=True), **changes), "")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"alpha_res": None}, LookupError, "no tensor 'alpha_res'"),
        ({"phi": torch.ones(8, 16)}, ValueError, r"phi has shape \(8, 16\); n streams need \[n·hidden, n²\+2n\]"),
        ({"phi": torch.ones(15, 8)}, ValueError, "n streams need"),
        ({"b": torch.ones(7)}, ValueError, r"b has shape \(7,\).*needs \(8,\)"),
        ({"alpha_pre": torch.ones(2)}, ValueError, "alpha_pre has shape .*needs one element"),
        ({"alpha_res": torch.ones(()).half()}, TypeError, "alpha_res is torch.float16 and .*alpha_pre torch.float32"),
        ({"phi": torch.ones(16, 8, dtype=torch.int8)}, TypeError, "phi is torch.int8"),
    ],
)
def test_wrong_tensors_of_liger_s_layout_are_refused(changes, error, message):
    with pytest.raises(error, match=f"from_liger: .*{message}"):
        convert.from_liger(changed(liger_tensors(2), **changes))


@pytest.mark.parametrize(
    ("tensors", "changes", "error", "message"),
    [
        (megatron_tensors, {"alpha_res": None}, LookupError, "no tensor 'alpha_res'"),
        (megatron_tensors, {"alpha_pre": torch.ones(2)}, ValueError, "alpha_pre has shape .*needs one element"),
        (megatron_tensors, {"bias": torch.ones(7)}, ValueError, r"bias has shape \(7,\).*needs \(8,\)"),
        (
            megatron_tensors,
            {"mapping_proj.weight": torch.ones(8, 15)},
            ValueError,
            r"mapping_proj.weight has .*\(8, 15\)",
        ),
        (transformer_engine_tensors, {"beta": torch.ones(1, 7)}, ValueError, r"beta has shape \(7,\).*needs \(8,\)"),
        (transformer_engine_tensors, {"phi": torch.ones(16, 8)}, ValueError, r"phi has shape \(16, 8\)"),
        (transformer_engine_tensors, {"alpha": torch.ones(2)}, ValueError, r"alpha \(2,\)"),
        (transformer_engine_tensors, {"norm_weight": torch.ones(8)}, ValueError, r"norm_weight has shape \(8,\)"),
    ],
)
def test_wrong_tensors_of_the_layouts_of_megatron_and_transformer_engine_are_refused(tensors, changes, error, message):
    function = convert.from_megatron if tensors is megatron_tensors else convert.from_transformer_engine
    given = megatron_tensors(2) if tensors is megatron_tensors else transformer_engine_tensors(2, gamma=True)
    with pytest.raises(error, match=f"{function.__name__}: .*{message}"):
        function(changed(given, **changes))


def test_weights_that_another_layout_s_code_does_not_compute_are_refused():
    weights = convert.from_deepseek(deepseek_tensors(2))
    with pytest.raises(
        ValueError, match=r"have form='deepseek', sinkhorn_eps=1e-06, pre_eps=1e-06.*accepts its numbers"
    ):
        convert.to_transformer_engine(weights)
    with pytest.raises(ValueError, match=r"form='paper' and .*, and Megatron computes"):
        convert.to_megatron(dataclasses.replace(weights, form="paper"))
    with pytest.raises(ValueError, match="Megatron has no gamma"):
        convert.to_megatron(convert.from_deepseek(deepseek_tensors(2, gamma=True)))


def test_a_model_without_connections_is_refused():
    with pytest.raises(LookupError, match="no name among 1 ends in fn"):
        convert.model_from_deepseek(
            {
                "embed.weight": torch.ones(1),
            }
        )


def test_a_model_with_half_a_connection_is_refused():
    tensors = model_tensors(*PREFIXES["released"])
    del tensors["layers.0.hc_ffn_base"]
    with pytest.raises(LookupError, match=r"no tensor 'layers\.0\.hc_ffn_base'"):
        convert.model_from_deepseek(tensors)


def test_a_configuration_without_the_options_is_refused():
    with pytest.raises(LookupError, match="no rms_norm_eps, hc_sinkhorn_iters"):
        convert.deepseek_options({"hc_eps": 1e-6})


@pytest.mark.parametrize(
    "config", [{"model_type": "deepseek_v41"}, {"text_config": {"model_type": "deepseek_v41_text"}}]
)
def test_a_model_that_reads_with_the_weights_of_the_layer_before_is_refused(config):
    with pytest.raises(ValueError, match="h_pre of the layer before it"):
        convert.deepseek_options({**CONFIG, **config})


@pytest.mark.parametrize("form", ["paper", "liger"])
def test_deepseek_s_layout_takes_the_form_that_its_code_computes(form):
    weights = dataclasses.replace(convert.from_deepseek(deepseek_tensors(2)), form=form)
    with pytest.raises(ValueError, match=f"to_deepseek: .*form={form!r}"):
        convert.to_deepseek(weights)


@pytest.mark.parametrize("form", ["paper", "deepseek"])
def test_liger_s_layout_takes_the_form_that_liger_computes(form):
    weights = dataclasses.replace(convert.from_liger(liger_tensors(2)), form=form)
    with pytest.raises(ValueError, match=f"to_liger: .*form={form!r}"):
        convert.to_liger(weights)


def test_liger_s_layout_has_no_gamma():
    weights = dataclasses.replace(convert.from_liger(liger_tensors(2)), gamma=torch.ones(2, HIDDEN))
    with pytest.raises(ValueError, match=r"no gamma; weights\.folded"):
        convert.to_liger(weights)
    assert convert.to_liger(weights.folded()).keys() == liger_tensors(2).keys()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"phi": torch.ones(7, 16)}, "phi has shape"),
        ({"phi": torch.ones(8, 15)}, "phi has 15 columns"),
        ({"alpha": torch.ones(1)}, "alpha has shape"),
        ({"bias": torch.ones(7)}, "bias has shape"),
        ({"gamma": torch.ones(16)}, r"gamma has shape \(16,\).*needs \(2, 8\)"),
        ({"form": "Paper"}, "needs one of paper, deepseek, liger"),
        ({"iterations": 0}, "iterations is 0"),
    ],
)
def test_weights_that_do_not_fit_together_are_refused(changes, message):
    weights = convert.from_deepseek(deepseek_tensors(2))
    with pytest.raises(ValueError, match=f"ConnectionWeights: .*{message}"):
        dataclasses.replace(weights, **changes)


def test_a_head_s_weights_that_do_not_fit_together_are_refused():
    head = convert.head_from_deepseek(head_tensors(2), "")
    with pytest.raises(ValueError, match="HeadWeights: phi has shape"):
        dataclasses.replace(head, phi=torch.ones(16))
    with pytest.raises(ValueError, match="HeadWeights: alpha has shape"):
        dataclasses.replace(head, alpha=torch.ones(3))


@pytest.mark.parametrize(("phi", "gamma"), [(torch.ones(8, 16), torch.ones(15)), (torch.ones(16), torch.ones(16))])
def test_a_gamma_that_does_not_fit_phi_is_refused(phi, gamma):
    with pytest.raises(ValueError, match="fold_gamma: gamma has shape"):
        mhc.fold_gamma(phi, gamma)


@pytest.mark.parametrize("n", [2, 4])
def test_the_split_operators_of_tilekernels_have_counterparts(n):
    """Each by its equation: one projection, the mixes it gives, Sinkhorn, the read and the write."""
    torch.manual_seed(0)
    x, y, phi = torch.randn(5, n, HIDDEN), torch.randn(5, HIDDEN), torch.randn(n * n + 2 * n, n * HIDDEN)
    scale, base, gamma = torch.randn(3), torch.randn(n * n + 2 * n), torch.rand(n, HIDDEN)
    rms = torch.sqrt((x.flatten(1) ** 2).mean(1, keepdim=True) + 1e-6)
    mixes = x.flatten(1) @ (phi * gamma.flatten()).T / rms
    rows = torch.cat([torch.zeros(2 * n, n * HIDDEN), phi])
    split = mhc.mhc_coefficients(x, rows, torch.ones(3), torch.zeros(len(rows)), gamma)
    torch.testing.assert_close(split.logits, mixes)
    made = mhc.mhc_coefficients(x, phi, scale, base, gamma, post_scale=1.0)
    pre, post, comb = (mixes * scale.repeat_interleave(torch.tensor([n, n, n * n])) + base).split([n, n, n * n], 1)
    torch.testing.assert_close(tuple(made), (pre.sigmoid() + 1e-6, post.sigmoid(), comb))
    comb, matrix = comb.unflatten(1, (n, n)), comb.unflatten(1, (n, n)).softmax(-1) + 1e-6
    for turn in range(10):
        matrix = matrix if turn == 0 else matrix / (matrix.sum(-1, keepdim=True) + 1e-6)
        matrix = matrix / (matrix.sum(-2, keepdim=True) + 1e-6)
    torch.testing.assert_close(mhc.sinkhorn(comb.mT, iterations=10, form="deepseek").mT, matrix)
    torch.testing.assert_close(mhc.mhc_read(x, made.h_pre), torch.einsum("ti,tic->tc", made.h_pre, x))
    written = torch.einsum("tij,tic->tjc", matrix, x) + made.h_post[..., None] * y[:, None]
    torch.testing.assert_close(mhc.mhc_post(x, y, made.h_post, matrix.mT), written)
