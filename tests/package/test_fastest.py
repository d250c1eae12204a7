"""The backend that has the faster of the kernels in Triton and in C++."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import mhc
from mhc import backends
from mhc.ops.mhc_coefficients import MhcCoefficientsSpec
from mhc.ops.mhc_head import MhcHeadSpec
from mhc.ops.mhc_post import MhcPostSpec
from mhc.ops.mhc_post_pre import MhcPostPreSpec
from mhc.ops.mhc_pre import MhcPreSpec
from mhc.ops.sinkhorn import SinkhornSpec
from spy import HIDDEN, TOKENS, N

pytest.importorskip("triton")
from triton.backends.compiler import GPUTarget

interpreted = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="Triton's interpreter is off")
SPECS: dict[str, Any] = {
    "mhc_pre": lambda *values: MhcPreSpec(*values, True),
    "mhc_head": lambda *values: MhcHeadSpec(*values, True),
    "mhc_post": MhcPostSpec,
}
CHOSEN = [("mhc_pre", "forward"), ("mhc_head", "forward"), ("mhc_post", "forward"), ("mhc_post", "backward")]
BACKWARD = ("mhc_pre", "backward")  # C++ runs at some widths
ELSEWHERE = {
    "another GPU": (4, 1280, torch.bfloat16, "sm_100"),
    "an AMD GPU": (4, 1280, torch.bfloat16, "gfx942"),
    "the interpreter": (4, 1280, torch.bfloat16, None),
    "fp32": (4, 1280, torch.float32, "sm_90"),
    "fp16": (4, 1280, torch.float16, "sm_90"),
    "three streams": (3, 1280, torch.bfloat16, "sm_90"),
    "a width that C++ does not take": (4, 77, torch.bfloat16, "sm_90"),
}


@pytest.mark.parametrize(("op", "direction"), CHOSEN)
@pytest.mark.parametrize("hidden", [1280, 2560, 4096, 7168])
def test_cpp_is_chosen_where_it_was_measured_to_be_faster(op, direction, hidden):
    kernel: Any = backends.load("fastest", op, direction)
    assert kernel.choose(SPECS[op](4, hidden, torch.bfloat16), "sm_90") == "cpp"


@pytest.mark.parametrize(
    ("hidden", "variants"),
    [
        (1024, ["triton"] * 4 + ["cpp"]),
        (1280, ["triton"] * 4 + ["cpp"]),
        (1536, ["triton"] * 5),
        (2048, ["triton"] * 2 + ["cpp"] * 3),
        (2560, ["cpp"] * 5),
        (4096, ["cpp"] * 5),
        (7168, ["triton"] * 5),
    ],
)
def test_cpp_is_chosen_for_the_backward_of_some_widths(hidden, variants):
    kernel: Any = backends.load("fastest", *BACKWARD)
    spec = SPECS["mhc_pre"](4, hidden, torch.bfloat16)
    assert [kernel.choose(spec, "sm_90", tokens) for tokens in (1, 2047, 2048, 4095, 4096)] == variants


@pytest.mark.parametrize(
    ("op", "hidden", "most"),
    [
        ("mhc_pre", 1024, 256),
        ("mhc_pre", 1280, 256),
        ("mhc_pre", 2048, 256),
        ("mhc_pre", 3584, 256),
        ("mhc_pre", 5120, 256),
        ("mhc_pre", 7168, 256),
        ("mhc_head", 3072, 64),
        ("mhc_head", 6144, 256),
    ],
)
def test_a_read_of_few_tokens_is_triton_s(op, hidden, most):
    kernel: Any = backends.load("fastest", op)
    spec = SPECS[op](4, hidden, torch.bfloat16)
    assert [kernel.choose(spec, "sm_90", tokens) for tokens in (1, most, most + 1)] == ["triton", "triton", "cpp"]


@pytest.mark.parametrize(("op", "direction"), [*CHOSEN, BACKWARD])
@pytest.mark.parametrize(("streams", "hidden", "dtype", "target"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_triton_is_chosen_elsewhere(op, direction, streams, hidden, dtype, target):
    kernel: Any = backends.load("fastest", op, direction)
    spec = SPECS[op](streams, hidden, dtype)
    assert kernel.choose(spec, target) == "triton"
    assert kernel.supports(spec, target) is None
    assert kernel.variants["triton"] is backends.load("triton", op, direction)


def test_sinkhorn_is_cpp_s_forward_alone():
    kernel: Any = backends.load("fastest", "sinkhorn")
    places = [(4, "sm_90"), (3, "sm_90"), (4, "sm_100"), (4, None)]
    assert [kernel.choose(SinkhornSpec(streams), target) for streams, target in places] == ["cpp", *["triton"] * 3]


def test_everything_else_is_triton_s():
    own, triton = backends.operators_of("fastest"), backends.operators_of("triton")
    assert own.keys() == triton.keys()
    changed = {key for key in own if own[key] is not triton[key]}
    variants = {("mhc_coefficients", "forward"), ("mhc_post_pre", "forward"), ("mhc_post_pre", "backward")}
    assert changed == {*CHOSEN, BACKWARD, ("sinkhorn", "forward"), *variants}


def test_coefficients_alone_of_many_tokens_do_not_wait_for_their_squares():
    kernel: Any = backends.load("fastest", "mhc_coefficients")
    spec = MhcCoefficientsSpec(4, 4096, torch.bfloat16, False)
    assert [kernel.choose(spec, "sm_90", tokens) for tokens in (1, 2047, 2048)] == ["triton", "triton", "bf16x3"]
    assert kernel.choose(spec, "gfx942", 2048) == "triton"


@pytest.mark.parametrize(("hidden", "variant"), [(7168, "triton"), (7169, "wide"), (8192, "wide")])
def test_a_read_of_few_wide_tokens_has_eight_warps(hidden, variant):
    kernel: Any = backends.load("fastest", "mhc_pre")
    spec = MhcPreSpec(4, hidden, torch.bfloat16, False)
    assert kernel.choose(spec, "sm_90", 256) == variant
    assert kernel.choose(spec, "sm_90", 257) != "wide"
    assert kernel.variants["wide"].configure(spec, GPUTarget("cuda", 90, 32)).read.options["num_warps"] == 8


@pytest.mark.parametrize("hidden", [1024, 5120, 8192])
def test_the_write_and_the_read_of_few_tokens_are_joined(hidden):
    kernel: Any = backends.load("fastest", "mhc_post_pre")
    spec = MhcPostPreSpec(4, hidden, torch.bfloat16, False)
    assert [kernel.choose(spec, "sm_90", tokens) for tokens in (1, 4, 5)] == ["joined", "joined", "in_turn"]
    assert kernel.choose(replace(spec, dtype=torch.float32), "sm_90", 1) == "in_turn"
    assert kernel.choose(spec, "sm_100", 1) == "in_turn"


def test_it_adds_and_takes_what_triton_does():
    """A read hands its streams on, and a layer needs no views: neither may be lost by the choice."""
    assert getattr(backends.load("fastest", "mhc_pre", "backward"), "adds_to_first", False)
    assert all(getattr(kernel, "any_leading_dims", False) for kernel in backends.operators_of("fastest").values())


@pytest.mark.parametrize(("op", "direction"), CHOSEN)
def test_it_compiles_the_kernel_that_it_chooses(op, direction, monkeypatch):
    kernel: Any = backends.load("fastest", op, direction)
    for name, variant in kernel.variants.items():
        monkeypatch.setattr(variant, "compile", lambda spec, target, name=name: (name, spec, target))
    here, elsewhere = (SPECS[op](4, 512, dtype) for dtype in (torch.bfloat16, torch.float32))
    assert kernel.compile(here, "sm_90") == ("cpp", here, "sm_90")
    assert kernel.compile(elsewhere, "sm_90") == ("triton", elsewhere, "sm_90")


@interpreted
@pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning")
def test_a_stack_of_layers_learns_as_with_the_reference():
    torch.manual_seed(0)
    x, out = torch.randn(TOKENS, N, HIDDEN, requires_grad=True), {}
    stack = mhc.HyperStack([mhc.HyperConnection(nn.Linear(HIDDEN, HIDDEN), N, HIDDEN) for _ in range(2)])
    for name in ("fastest", "reference"):
        for layer in stack:
            layer.backend = name
        result = stack(x)
        out[name] = [result, *torch.autograd.grad(result.square().sum(), [x, *stack.parameters()])]
    for one, other in zip(out["fastest"], out["reference"], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
