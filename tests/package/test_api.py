"""The functions of the package: what they take, what they refuse, and that the reference is the paper's equation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import mhc
from mhc import backends
from mhc.arguments import read_tensors
from mhc.ops.mhc_pre import MhcPreInputs

golden = backends.load("reference", "mhc_pre").golden


def make(tokens=5, n=4, hidden=6, dtype=torch.float32, gamma=True, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    return MhcPreInputs(
        x=normal(tokens, n, hidden).to(dtype),
        phi=normal(n * (n + 2), n * hidden) / math.sqrt(n * hidden),
        alpha=torch.tensor([0.7, 1.1, 0.9]),
        bias=normal(n * (n + 2)),
        gamma=1 + 0.3 * normal(n, hidden) if gamma else None,
        norm_eps=1e-3,
        pre_eps=1e-2,
    )


def call(inputs, **options):
    return mhc.mhc_pre(*inputs[:5], norm_eps=inputs.norm_eps, pre_eps=inputs.pre_eps, **options)


@pytest.mark.parametrize("gamma", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_golden_is_the_equation_written_out_token_by_token(n, gamma):
    inputs = make(n=n, gamma=gamma)
    result = golden(inputs)
    phi, bias = inputs.phi.double().numpy(), inputs.bias.double().numpy()
    a_pre, a_post, a_res = inputs.alpha.double().tolist()
    for t, token in enumerate(inputs.x.double().numpy()):
        v = token.reshape(-1)
        weight = inputs.gamma.double().numpy().reshape(-1) if gamma else np.ones_like(v)
        r = 1 / math.sqrt(sum(value * value for value in v) / len(v) + inputs.norm_eps)
        m = [sum(phi[o, k] * v[k] * weight[k] for k in range(len(v))) * r for o in range(n * n + 2 * n)]
        h_pre = [1 / (1 + math.exp(-(a_pre * m[i] + bias[i]))) + inputs.pre_eps for i in range(n)]
        h_post = [2 / (1 + math.exp(-(a_post * m[n + i] + bias[n + i]))) for i in range(n)]
        h_res = [a_res * m[2 * n + i] + bias[2 * n + i] for i in range(n * n)]
        h_in = sum(h_pre[i] * token[i] for i in range(n))
        np.testing.assert_allclose(result.h_in[t].numpy(), h_in, rtol=1e-12)
        np.testing.assert_allclose(result.h_post[t].numpy(), h_post, rtol=1e-12)
        np.testing.assert_allclose(result.h_res[t].numpy().reshape(-1), h_res, rtol=1e-11, atol=1e-12)


def test_the_golden_is_float64_throughout():
    assert all(tensor.dtype == torch.float64 for tensor in golden(make(dtype=torch.bfloat16)))


def test_gamma_reaches_the_coefficients_and_gamma_of_ones_is_no_gamma():
    inputs = make()
    without = call(inputs._replace(gamma=None))
    ones = call(inputs._replace(gamma=torch.ones_like(inputs.gamma)))
    for a, b, c in zip(call(inputs), without, ones, strict=True):
        assert (a - b).abs().max() > 1e-3
        assert torch.equal(b, c)


def test_leading_dimensions_are_kept_and_a_strided_x_is_taken():
    inputs = make(tokens=6)
    flat = call(inputs)
    x = inputs.x.reshape(2, 3, 4, 6).transpose(2, 3).contiguous().transpose(2, 3)
    assert not x.is_contiguous()
    shaped = call(inputs._replace(x=x))
    assert [tuple(t.shape) for t in shaped] == [(2, 3, 6), (2, 3, 4), (2, 3, 4, 4)]
    for a, b in zip(flat, shaped, strict=True):
        assert torch.equal(a.reshape(b.shape), b)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_outputs_have_x_s_dtype_and_fp32(dtype):
    assert [t.dtype for t in call(make(dtype=dtype))] == [dtype, torch.float32, torch.float32]


def test_no_token_gives_no_result():
    assert [tuple(t.shape) for t in call(make(tokens=0))] == [(0, 6), (0, 4), (0, 4, 4)]


def test_a_token_does_not_depend_on_its_neighbours():
    inputs = make(tokens=8)
    changed = inputs.x.clone()
    changed[3] += 100
    for a, b in zip(call(inputs), call(inputs._replace(x=changed)), strict=True):
        keep = [0, 1, 2, 4, 5, 6, 7]
        torch.testing.assert_close(a[keep], b[keep], rtol=0, atol=1e-6)
        assert not torch.equal(a[3], b[3])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"x": torch.zeros(4)}, ValueError, r"x has shape \(4,\); it needs \[..., streams, hidden\]"),
        ({"x": torch.zeros(5, 4, 6, dtype=torch.int32)}, TypeError, "x is torch.int32; it needs one of torch.bfloat16"),
        ({"x": torch.zeros(5, 4, 0)}, ValueError, "x has 4 streams of 0; it needs at least one of each"),
        (
            {"phi": torch.zeros(24, 23)},
            ValueError,
            r"phi has shape \(24, 23\); x of shape \(5, 4, 6\) needs \(24, 24\)",
        ),
        (
            {"phi": torch.zeros(24, 24, dtype=torch.float64)},
            TypeError,
            "phi is torch.float64; it needs one of torch.bfloat16",
        ),
        ({"phi": None}, TypeError, "mhc_pre: phi is None; it needs a tensor"),
        ({"alpha": torch.zeros(4)}, ValueError, "alpha has shape"),
        ({"bias": torch.zeros(23)}, ValueError, "bias has shape"),
        ({"gamma": torch.zeros(24)}, ValueError, "gamma has shape"),
        ({"alpha": torch.zeros(3, device="meta")}, ValueError, "alpha is on meta and x on cpu; they need one device"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_it_got_and_what_it_needs(change, error, message):
    with pytest.raises(error, match=message):
        call(make()._replace(**change))


@pytest.mark.parametrize("weights", [0, 1])
@pytest.mark.parametrize("change", ["one parameter too few", "one too many"])
def test_the_parameters_of_a_read_are_counted(change, weights):
    inputs = make()
    weight = (torch.ones(inputs.x.shape[-1]),) * weights
    parameters = inputs[1:4] if change == "one parameter too few" else (*inputs[1:5], None)
    assert len(read_tensors("mhc_pre", inputs.x, inputs[1:5], "fp32", False, weight=weight)) == 5 + weights
    with pytest.raises(ValueError, match=r"is (shorter|longer) than"):
        read_tensors("mhc_pre", inputs.x, parameters, "fp32", False, weight=weight)


def test_an_unknown_backend_is_refused_and_a_missing_toolchain_is_no_fallback():
    assert backends.names() == (
        "cpp",
        "cute",
        "fastest",
        "inductor",
        "pallas",
        "reference",
        "tilelang",
        "tilelang_ascend",
        "triton",
        "triton_ascend",
        "tvm",
    )
    with pytest.raises(LookupError, match="there is no backend 'cutlass'; there are cpp, cute, fastest, inductor"):
        call(make(), backend="cutlass")
    with pytest.raises(LookupError, match="does not have 'mhc_nothing' forward"):
        backends.load("reference", "mhc_nothing")
    with pytest.raises(ImportError, match="tilelang"):
        call(make(), backend="tilelang")


def test_the_default_backend_follows_the_device():
    assert backends.default_backend(torch.device("cpu")) == "reference"
    assert backends.default_backend(torch.device("cuda")) == "triton"
