"""The single pass for serving: its fp8 and its scales, what it refuses, and the ways that PyTorch goes through it."""

from __future__ import annotations

import importlib.util
import os

import ml_dtypes
import numpy as np
import pytest
import torch

import mhc
from mhc.backends import load
from mhc.ops.mhc_single_pass_fp8 import MhcSinglePassFp8Inputs, MhcSinglePassFp8Spec, empty_outputs

INTERPRETED = importlib.util.find_spec("triton") is not None and os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BACKENDS = ["reference", "cpp", *(["triton"] if INTERPRETED or DEVICE == "cuda" else [])]
TOKENS, N, HIDDEN = 3, 4, 256
# On a GPU Triton's variants are for such sizes; its interpreter truncates to bf16.
SIZES, COMPARED = ([(3, 256), (3, 1024), (300, 1024)], BACKENDS) if DEVICE == "cuda" else ([(3, 256)], BACKENDS[:2])
OPTIONS = {"norm_eps": 1e-5, "pre_eps": 1e-2, "post_scale": 1.5}


def given(*lead, hidden=HIDDEN, dtype=torch.float32):
    torch.manual_seed(hidden)
    x, y = torch.randn(*lead, N, hidden).to(dtype), torch.randn(*lead, hidden).to(dtype)
    written = (x, y, torch.rand(*lead, N), torch.rand(*lead, N, N), torch.rand(*lead, N))
    mapping = (torch.randn(2 * N + 3, N * hidden) / 32, torch.ones(3), torch.randn(2 * N + 3), torch.rand(N, hidden))
    return *written, *mapping, torch.randn(hidden)


def on_device(*tensors):
    return [tensor if tensor is None else tensor.to(DEVICE) for tensor in tensors]


def one_row(values):
    """Return the tensors of one row that is normalised by one, so that ``values`` are quantised."""
    hidden = len(values)
    zero, y = torch.zeros(1, 1, hidden), torch.ones(1, hidden)
    one, mapping = torch.ones(1, 1), (torch.zeros(2, hidden), torch.zeros(3), torch.zeros(2), None)
    return zero, y, one, one.unsqueeze(2), one, *mapping, torch.from_numpy(values.astype(np.float32))


def numbers(backend, values, **options):
    """Return what the numbers of one row become, in fp8 as bytes, and their scales."""
    tensors = on_device(*one_row(values))
    _, h_in, scale, _ = mhc.mhc_single_pass_fp8(*tensors, norm_eps=1e-30, backend=backend, **options)
    return h_in.view(torch.uint8)[0].cpu().numpy(), scale[0].cpu().numpy()


def in_groups(values):
    """Return groups of 128 columns that hold the numbers and 448, so that each scale is one."""
    rows = np.full((-(-len(values) // 127), 128), 448.0, np.float32)
    rows[:, :127].flat[: len(values)] = values
    return rows.flatten()


def all_of_fp8():
    """Return the finite numbers of e4m3 but for -0, the middles between them, and the neighbours of all in fp32."""
    finite = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    finite = np.unique(finite[np.isfinite(finite)])
    numbers = np.concatenate([finite, (finite[1:] + finite[:-1]) / 2])
    beside = [np.nextafter(numbers, np.float32(side)) for side in (-448, 448)]
    return np.concatenate([numbers, *beside, [1e-8, -1e-8, 1e-20, np.float32(1e-40)]]).astype(np.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_number_of_fp8_and_every_middle_is_rounded_as_pytorch_rounds_it(backend):
    values = in_groups(all_of_fp8())
    codes, scales = numbers(backend, values)
    assert (scales == 1).all()
    assert np.array_equal(codes, torch.from_numpy(values).to(torch.float8_e4m3fn).view(torch.uint8).numpy())
    assert len(np.unique(codes)) == 254  # all but NaN, of either sign


@pytest.mark.skipif(INTERPRETED, reason="the interpreter is no GPU")
@pytest.mark.nightly
@pytest.mark.parametrize("backend", ["triton", "cpp"])
def test_an_emulated_gpu_without_that_conversion_rounds_so_too(backend):
    pytest.importorskip("triton")
    kernel, spec = load(backend, "mhc_single_pass_fp8"), MhcSinglePassFp8Spec(1, 128, torch.float32, False, logits=0)
    if not kernel.compile(spec, "gfx942").is_machine_code:
        pytest.skip("no compiler for gfx942 is here")
    values = in_groups(all_of_fp8())
    inputs = MhcSinglePassFp8Inputs(*one_row(values), norm_eps=1e-30)
    out = empty_outputs(inputs)
    kernel.run(inputs, out, "gfx942")
    expected = torch.from_numpy(values).to(torch.float8_e4m3fn)
    assert torch.equal(out.h_in[0].view(torch.uint8), expected.view(torch.uint8))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_group_of_128_columns_has_a_scale_of_its_own(backend):
    values = np.zeros(3 * 128)
    values[[5, 130, 131]] = 3.0, -7.0, 1.0
    codes, scales = numbers(backend, values)
    assert np.array_equal(scales, np.float32([3, 7, 1e-4]) / np.float32(448))
    decoded = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert decoded[[5, 130, 131]].tolist() == [448, -448, 64]
    assert np.count_nonzero(decoded) == 3


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bits", [0x7FC00000, 0x7FFFFFFF, 0xFFC00000])  # of several processors
def test_nan_makes_its_group_nan_and_no_other(backend, bits):
    """All groups of the row would have it, if what is read had it: so the weight does."""
    values = np.ones(256, np.float32)
    values.view(np.uint32)[7] = bits
    codes, scales = numbers(backend, values)
    assert np.isnan(scales).tolist() == [True, False]
    assert np.isnan(codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32)).tolist() == [True] * 128 + [False] * 128


@pytest.mark.parametrize("powers", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("tokens", "hidden"), SIZES)
@pytest.mark.parametrize("backend", COMPARED)
def test_it_is_the_single_pass_of_its_backend_whose_result_is_quantised(backend, tokens, hidden, dtype, powers):
    tensors = on_device(*given(tokens, hidden=hidden, dtype=dtype))
    out, wide, made = mhc.mhc_single_pass(*tensors, **OPTIONS, backend=backend)
    results = mhc.mhc_single_pass_fp8(*tensors, **OPTIONS, power_of_two_scales=powers, backend=backend)
    groups = wide.float().unflatten(-1, (-1, 128))
    scale = groups.abs().amax(-1).clamp(min=1e-4) / 448
    if powers:
        scale = torch.exp2(scale.double().log2().ceil()).float()
    assert torch.equal(results[0], out)
    assert torch.equal(results[2], scale)
    expected = (groups / scale.unsqueeze(-1)).flatten(-2).to(torch.float8_e4m3fn)
    assert torch.equal(results[1].view(torch.uint8), expected.view(torch.uint8))
    assert all(torch.equal(a, b) for a, b in zip(results[3], made, strict=True))


@pytest.mark.nightly  # a C++ compiler takes ten seconds
def test_inductor_makes_scales_of_what_is_rounded():
    tensors = given(9, dtype=torch.bfloat16)
    scales = [mhc.mhc_single_pass_fp8(*tensors, backend=backend)[2] for backend in ("inductor", "reference")]
    assert torch.equal(*scales)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("exponent", [-20, 0, 3])
def test_a_scale_is_rounded_up_to_a_power_of_two_unless_it_is_one(backend, exponent):
    largest = np.float32(448 * 2.0**exponent)
    values = np.zeros(256)
    values[0], values[128] = largest, np.nextafter(largest, np.float32(np.inf))
    codes, scales = numbers(backend, values, power_of_two_scales=True)
    assert scales.tolist() == [2.0**exponent, 2.0 ** (exponent + 1)]
    assert codes.view(ml_dtypes.float8_e4m3fn)[[0, 128]].tolist() == [448, 224]


@pytest.mark.parametrize("lead", [(), (2, 3), (0,)])
def test_leading_dimensions_are_free(lead):
    out, h_in, scale, made = mhc.mhc_single_pass_fp8(*given(*lead))
    assert (h_in.dtype, scale.dtype) == (torch.float8_e4m3fn, torch.float32)
    assert [tuple(t.shape) for t in (out, h_in, scale, *made)] == [
        (*lead, *shape) for shape in [(N, HIDDEN), (HIDDEN,), (2,), (N,), (N,), (3,)]
    ]


def test_a_width_that_is_no_multiple_of_128_is_refused():
    with pytest.raises(ValueError, match="mhc_single_pass_fp8: hidden is 200; it needs a multiple of 128"):
        mhc.mhc_single_pass_fp8(*given(TOKENS, hidden=200))


def test_a_gradient_is_refused_and_without_recording_it_is_not():
    *tensors, weight = given(TOKENS)
    weight.requires_grad_()
    with pytest.raises(
        RuntimeError, match=r"mhc_single_pass_fp8: a tensor requires a gradient.*use mhc_single_pass for"
    ):
        mhc.mhc_single_pass_fp8(*tensors, weight)
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode:
            assert not mhc.mhc_single_pass_fp8(*tensors, weight)[2].requires_grad
    with pytest.raises(RuntimeError, match="use mhc_single_pass for training"):
        torch.func.grad(lambda w: mhc.mhc_single_pass_fp8(*tensors, w)[2].sum())(weight.detach())
    options = (1e-6, 1e-6, 2.0, "fp32", False, "reference")
    scale = torch.ops.mhc.mhc_single_pass_fp8(*tensors, weight, *options)[1]
    with pytest.raises(NotImplementedError, match="mhc_single_pass_fp8: it has no gradient; mhc_single_pass has one"):
        scale.sum().backward()


def test_vmap_gives_what_a_batch_gives():
    tensors = given(2, TOKENS)
    places = (0,) * 5 + (None,) * 5
    results = torch.func.vmap(lambda *values: mhc.mhc_single_pass_fp8(*values)[:3], in_dims=places)(*tensors)
    for one, other in zip(results, mhc.mhc_single_pass_fp8(*tensors), strict=False):
        assert torch.equal(one.float(), other.float())


def test_it_is_well_registered():
    """Schema, fake tensors and tracing with any number of tokens, by PyTorch's own check."""
    values = (*given(TOKENS), 1e-6, 1e-6, 2.0, "fp32", True, "reference")
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.mhc.mhc_single_pass_fp8.default, values, test_utils=checks)


class _Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        _, _, *rest = given(TOKENS)
        self.names = [f"p{place}" for place in range(3, 8)]
        for name, value in zip(self.names, rest[3:], strict=True):
            self.register_parameter(name, torch.nn.Parameter(value))

    def forward(self, x, y):
        ones = x.new_ones(*x.shape[:-1])
        matrix = x.new_ones(*x.shape[:-1], N) / N
        parameters = [getattr(self, name) for name in self.names]
        out, h_in, scale, made = mhc.mhc_single_pass_fp8(x, y, ones, matrix, ones / N, *parameters)
        return out, h_in.view(torch.uint8), scale, made.h_pre


def test_it_is_compiled_and_exported_for_any_number_of_tokens():
    model, dynamic = _Model(), {"x": {0: torch.export.Dim("tokens", min=2)}}
    dynamic["y"] = dynamic["x"]
    with torch.no_grad():
        compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
        exported = torch.export.export(model, given(TOKENS)[:2], dynamic_shapes=dynamic).module()
        for tokens in (TOKENS, 17):
            x, y = given(tokens)[:2]
            expected = model(x, y)
            for results in (compiled(x, y), exported(x, y)):
                assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))
