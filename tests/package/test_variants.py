"""One kernel is chosen among several for the same operator, and a wrong table of choices says what is wrong."""

from __future__ import annotations

import functools
import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

import mhc
from mhc import backends
from mhc.backends.rules import rules_of
from mhc.backends.variants import Variants, with_variants
from mhc.ops import mhc_coefficients, mhc_pre, mhc_pre_norm, mhc_pre_norm_fp8, mhc_single_pass, mhc_single_pass_fp8
from mhc.ops.mhc_coefficients import MhcCoefficientsInputs, MhcCoefficientsSpec
from mhc.ops.mhc_head import MhcHeadSpec
from mhc.ops.mhc_pre import MhcPreInputs, MhcPreSpec
from mhc.ops.mhc_pre_norm import MhcPreNormInputs, MhcPreNormSpec
from mhc.ops.mhc_pre_norm_fp8 import MhcPreNormFp8Inputs, MhcPreNormFp8Spec
from mhc.ops.mhc_single_pass import MhcSinglePassInputs, MhcSinglePassSpec
from mhc.ops.mhc_single_pass_fp8 import MhcSinglePassFp8Inputs, MhcSinglePassFp8Spec


@dataclass(frozen=True)
class Spec:
    streams: int
    dtype: torch.dtype
    gamma: bool = False
    eps: float = 1e-6
    precision: str = "fp32"


class Inputs(NamedTuple):
    x: torch.Tensor
    streams: int = 4
    precision: str = "fp32"

    @property
    def spec(self) -> Spec:
        return Spec(self.streams, self.x.dtype, precision=self.precision)


class MadeUp:
    """A kernel that writes its number, and refuses what ``reason`` says."""

    def __init__(self, number, reason=None):
        self.number = number
        self.reason = reason
        self.asked = 0

    def supports(self, spec, target, tokens=None):
        self.asked += 1
        return self.reason

    def run(self, inputs, out, target=None):
        out.fill_(self.number)

    def compile(self, spec, target):
        return backends.Artifact("cubin", target, bytes([self.number]))


def table(tmp_path, text, kernels, target_of=lambda device: None):
    (tmp_path / "variants.toml").write_text(text)
    return with_variants(kernels, {"op": Spec, "other": Spec}, tmp_path, target_of)


def result(kernel, inputs, target=None):
    out = torch.empty(1)
    kernel.run(inputs, out, target)
    return int(out)


@pytest.fixture
def kernels():
    return {"first": MadeUp(1), "second": MadeUp(2), "third": MadeUp(3)}


def chooser(tmp_path, text, kernels, target_of=lambda device: None):
    kinds = [(op, direction) for op in ("op", "other") for direction in ("forward", "backward")]
    return table(tmp_path, text, dict.fromkeys(kinds, kernels), target_of)["op", "forward"]


def test_the_first_rule_that_holds_decides(tmp_path, kernels):
    kernel = chooser(
        tmp_path,
        """
        [[choice]]
        op = "op"
        precision = "tf32"
        streams = [2, 4]
        variant = "second"

        [[choice]]
        op = ["other", "op"]
        dtype = "float16"
        variant = "third"
        """,
        kernels,
    )
    x = torch.zeros(5, 2)
    assert isinstance(kernel, Variants)
    assert result(kernel, Inputs(x)) == 1, "no rule holds: the default runs"
    assert result(kernel, Inputs(x, precision="tf32")) == 2
    assert result(kernel, Inputs(x, streams=3, precision="tf32")) == 1
    assert result(kernel, Inputs(x.half())) == 3
    assert result(kernel, Inputs(x.half(), precision="tf32")) == 2


def test_a_rule_is_for_its_operator_and_direction(tmp_path, kernels):
    kinds = [("op", "forward"), ("op", "backward"), ("other", "forward")]
    of = table(
        tmp_path,
        """
        [[choice]]
        op = "op"
        direction = "backward"
        variant = "second"

        [[choice]]
        op = "other"
        direction = "forward"
        variant = "third"
        """,
        dict.fromkeys(kinds, kernels),
    )
    assert [result(of[kind], Inputs(torch.zeros(1))) for kind in kinds] == [1, 2, 3]


def test_a_rule_for_a_target_holds_on_a_device_that_is_one(tmp_path, kernels):
    text = '[[choice]]\nop = "op"\ntarget = ["sm_9*", "sm_100"]\nvariant = "second"\n'
    inputs = Inputs(torch.zeros(1))
    for target, number in (("sm_90", 2), ("sm_100", 2), ("sm_80", 1), ("gfx942", 1), (None, 1)):
        kernel = chooser(tmp_path, text, kernels, lambda device, name=target: name)
        assert result(kernel, inputs) == number, f"on a device that is {target}"
        assert result(chooser(tmp_path, text, kernels), inputs, target) == number, f"asked for {target}"


def test_a_rule_may_have_a_range_of_any_integer(tmp_path, kernels):
    text = """
        [[choice]]
        op = "op"
        streams = { least = 3, most = 4 }
        variant = "second"

        [[choice]]
        op = "op"
        streams = { least = 9 }
        variant = "third"
    """
    kernel = chooser(tmp_path, text, kernels)
    assert [result(kernel, Inputs(torch.zeros(1, 2, 2), streams)) for streams in (1, 2, 3, 4, 5, 8, 9, 99)] == [
        *(1, 1, 2, 2, 1, 1, 3, 3)
    ]


def test_a_rule_for_a_number_of_tokens_sees_each_call(tmp_path, kernels):
    kernel = chooser(
        tmp_path,
        """
        [[choice]]
        op = "op"
        tokens = { most = 3 }
        variant = "second"

        [[choice]]
        op = "op"
        tokens = { least = 8, most = 9 }
        variant = "third"
        """,
        kernels,
    )
    assert [result(kernel, Inputs(torch.zeros(tokens, 2, 2))) for tokens in (1, 3, 4, 7, 8, 9, 10)] == [
        2,
        2,
        1,
        1,
        3,
        3,
        1,
    ]
    assert kernel.choose(Inputs(torch.zeros(1)).spec, None) == "first", "their number is not known"


def test_the_default_runs_where_the_chosen_variant_does_not_support_the_inputs(tmp_path, kernels):
    text = '[[choice]]\nop = "op"\nvariant = "second"\n'
    kernels["second"].reason = "no such device"
    kernel = chooser(tmp_path, text, kernels)
    assert result(kernel, Inputs(torch.zeros(1))) == 1
    assert kernel.supports(Inputs(torch.zeros(1)).spec, None) is None
    kernels["first"].reason = "too many streams"
    assert kernel.supports(Inputs(torch.zeros(1)).spec, None) == "too many streams"


def test_the_variant_that_is_compiled_is_the_one_that_runs_there(tmp_path, kernels):
    kernel = chooser(tmp_path, '[[choice]]\nop = "op"\ntarget = "sm_90"\nvariant = "third"\n', kernels)
    spec = Inputs(torch.zeros(1)).spec
    assert kernel.compile(spec, "sm_90").data == bytes([3])
    assert kernel.compile(spec, "sm_80").data == bytes([1])


def test_the_supported_variants_begin_with_the_chosen_one(tmp_path, kernels):
    kernel = chooser(tmp_path, '[[choice]]\nop = "op"\nvariant = "third"\n', kernels)
    spec = Inputs(torch.zeros(1)).spec
    assert list(kernel.supported(spec, None)) == ["third", "first", "second"]
    kernels["first"].reason = "no"
    assert list(kernel.supported(spec, None)) == ["third", "second"]


def test_a_choice_is_made_once_for_each_kind_of_inputs(tmp_path, kernels, monkeypatch):
    kernel = chooser(tmp_path, '[[choice]]\nop = "op"\nvariant = "second"\n', kernels)
    assert result(kernel, Inputs(torch.zeros(1))) == 2
    asked = kernels["second"].asked
    monkeypatch.setattr(kernel, "choose", lambda *arguments: pytest.fail("the choice was made again"))
    for tokens in (1, 2, 3):
        assert result(kernel, Inputs(torch.zeros(tokens, 2, 2))) == 2
    assert kernels["second"].asked == asked


GOOD = '[[choice]]\nop = "op"\nvariant = "first"\n\n'
WRONG = {
    "no TOML": ("[[choice]\n", r"variants\.toml: .*line 1"),
    "another table": ("[choices]\n", r"variants\.toml: there is no key 'choices'; there is choice"),
    "one choice": ('[choice]\nop = "op"\n', r"variants\.toml: write each choice as a table of its own"),
    "no op": (GOOD + '[[choice]]\nvariant = "first"\n', r"variants\.toml:5: op is missing"),
    "no variant": (GOOD + '[[choice]]\nop = "op"\n', r"variants\.toml:5: variant is missing"),
    "an unknown op": (
        GOOD + '[[choice]]\nop = "opp"\nvariant = "first"\n',
        r":5: there is no op 'opp'; there are op, ",
    ),
    "an unknown direction": (
        '[[choice]]\nop = "op"\ndirection = "up"\nvariant = "first"\n',
        r":1: there is no direction 'up'; there are forward, backward",
    ),
    "an unknown variant": (
        GOOD + '[[choice]]\nop = "op"\nvariant = "fist"\n',
        r":5: there is no variant 'fist'; there are first, second, third",
    ),
    "an unknown key": (
        GOOD + '[[choice]]\nop = "op"\nvariant = "first"\nprecison = "tf32"\n',
        r":5: there is no key 'precison'; there are op, .*precision",
    ),
    "a value of another type": (
        '[[choice]]\nop = "op"\nvariant = "first"\nstreams = "4"\n',
        r":1: streams is '4'; it is of type int",
    ),
    "a number for a bool": ('[[choice]]\nop = "op"\nvariant = "first"\ngamma = 1\n', r":1: gamma is 1; .* type bool"),
    "a bool for a number": ('[[choice]]\nop = "op"\nvariant = "first"\nstreams = true\n', r":1: streams is True"),
    "an unknown dtype": ('[[choice]]\nop = "op"\nvariant = "first"\ndtype = "bf16"\n', r":1: dtype is 'bf16'"),
    "a key of tokens": ('[[choice]]\nop = "op"\nvariant = "first"\ntokens = { min = 1 }\n', r":1: tokens is "),
    "tokens that are no number": ('[[choice]]\nop = "op"\nvariant = "first"\ntokens = { least = "1" }\n', r"integers"),
    "a range of numbers that are no integers": (
        '[[choice]]\nop = "op"\nvariant = "first"\neps = { least = 1 }\n',
        r":1: eps is .*; it is of type float",
    ),
    "a key of a range": (
        '[[choice]]\nop = "op"\nvariant = "first"\nstreams = { min = 1 }\n',
        r":1: streams is .*least, most or both",
    ),
    "an empty range of tokens": (
        '[[choice]]\nop = "op"\nvariant = "first"\ntokens = { least = 2, most = 1 }\n',
        r":1: tokens is .*: no number is in it",
    ),
    "a target that is no name": ('[[choice]]\nop = "op"\nvariant = "first"\ntarget = 90\n', r":1: target is 90"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_table_is_refused_with_its_place(tmp_path, kernels, text, message):
    with pytest.raises(ValueError, match=message):
        chooser(tmp_path, text, kernels)


def test_a_rule_for_an_operator_without_variants_is_refused(tmp_path, kernels):
    """It would hold for nothing, and nobody would know."""
    text = '[[choice]]\nop = "op"\ndirection = "backward"\nvariant = "first"\n'
    with pytest.raises(ValueError, match=r"variants\.toml:1: op backward has no variants"):
        table(tmp_path, text, {("op", "forward"): kernels, ("op", "backward"): MadeUp(4)})


def test_triton_s_table_is_one():
    folder = Path(backends.__file__).parent / "triton"
    assert rules_of(folder / "variants.toml", SPECS)


TRITON = [
    # op, direction, target, streams, dtype, precision, variant
    ("mhc_pre", "forward", None, 4, torch.float32, "fp32", "registers"),
    ("mhc_pre", "forward", None, 5, torch.float32, "fp32", "products"),
    ("mhc_pre", "forward", None, 4, torch.float32, "tf32", "registers"),
    ("mhc_pre", "forward", "sm_80", 4, torch.bfloat16, "fp32", "registers"),
    ("mhc_pre", "forward", "sm_90", 4, torch.bfloat16, "fp32", "bf16x3"),
    ("mhc_pre", "forward", "sm_90", 4, torch.bfloat16, "tf32", "bf16x3"),
    ("mhc_pre", "forward", "sm_90", 4, torch.float32, "fp32", "registers"),
    ("mhc_pre", "backward", "sm_100", 16, torch.bfloat16, "fp32", "bf16x3"),
    ("mhc_pre", "backward", "sm_80", 16, torch.bfloat16, "fp32", "products"),
    ("mhc_pre", "backward", "sm_80", 4, torch.float16, "tf32", "tf32"),
    ("mhc_head", "forward", "gfx942", 16, torch.bfloat16, "tf32", "registers"),
    ("mhc_head", "backward", "sm_90", 16, torch.float32, "tf32", "tf32"),
    ("mhc_coefficients", "forward", "gfx942", 4, torch.bfloat16, "fp32", "registers"),
    ("mhc_pre_norm", "backward", "sm_90", 4, torch.bfloat16, "fp32", "bf16x3"),
    ("mhc_single_pass", "forward", "sm_100", 4, torch.bfloat16, "fp32", "bf16x3"),
    ("mhc_single_pass_fp8", "forward", "gfx942", 4, torch.bfloat16, "fp32", "registers"),
]
SPECS = {
    "mhc_pre": MhcPreSpec,
    "mhc_pre_norm": MhcPreNormSpec,
    "mhc_pre_norm_fp8": MhcPreNormFp8Spec,
    "mhc_head": MhcHeadSpec,
    "mhc_coefficients": MhcCoefficientsSpec,
    "mhc_single_pass": MhcSinglePassSpec,
    "mhc_single_pass_fp8": MhcSinglePassFp8Spec,
}


@pytest.mark.parametrize(("op", "direction", "target", "streams", "dtype", "precision", "variant"), TRITON)
def test_what_triton_chooses(op, direction, target, streams, dtype, precision, variant):
    pytest.importorskip("triton")
    spec = SPECS[op](streams, 200, dtype, True, precision=precision)
    kernel = backends.load("triton", op, direction)
    assert kernel.choose(spec, target) == variant
    assert kernel.supports(spec, target) is None


@pytest.mark.parametrize(
    ("target", "hidden", "streams", "variant"),
    [
        ("sm_90", 7168, 4, "overlapped"),
        ("sm_90", 2999, 4, "overlapped"),
        ("sm_90", 1023, 4, "bf16x3"),
        ("sm_90", 8193, 4, "bf16x3"),
        ("sm_90", 7168, 3, "bf16x3"),
        ("sm_100", 7168, 4, "bf16x3"),
    ],
)
def test_what_triton_chooses_for_the_read(target, hidden, streams, variant):
    pytest.importorskip("triton")
    kernel = backends.load("triton", "mhc_pre")
    assert kernel.choose(MhcPreSpec(streams, hidden, torch.bfloat16, True), target) == variant
    overlapped = kernel.variants["overlapped"]
    assert "16 tokens" in overlapped.supports(MhcPreSpec(4, 200, torch.float32, True), None, 17)
    assert overlapped.supports(MhcPreSpec(4, 200, torch.float32, True), None, 16) is None
    assert "35 mixes" in overlapped.supports(MhcPreSpec(5, 64, torch.bfloat16, True), "sm_90")
    assert "40000 elements" in overlapped.supports(MhcPreSpec(4, 10000, torch.bfloat16, True), "sm_90")
    assert "bf16" in overlapped.supports(MhcPreSpec(4, 200, torch.float32, True), "sm_90")


def test_few_tokens_bring_at_most_four_mebibytes_of_x_nearer_before_their_turn():
    pytest.importorskip("triton")
    gpu = importlib.import_module("mhc.backends.triton.ahead").gpu_target("sm_90")
    kernels = backends.load("triton", "mhc_pre").variants
    specs = [MhcPreSpec(4, hidden, torch.bfloat16, True) for hidden in (1280, 4096, 7168)]
    few, overlapped = ([kernels[name].configure(spec, gpu).project for spec in specs] for name in ("few", "overlapped"))
    tokens = [tiles.constants["AHEAD"] * tiles.constants["BLOCK_TOKENS"] for tiles in few]
    assert tokens == [384, 128, 64]
    assert [tiles.constants["AHEAD"] for tiles in overlapped] == [0, 0, 0]


@pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning")
def test_few_tokens_have_a_launch_less_and_the_same_bits():
    """A token gives the same whatever else is in its batch, and so in either variant."""
    pytest.importorskip("triton")
    for op, spec in SPECS.items():
        kernel = backends.load("triton", op)
        for hidden in (1024, 2999, 5120, 8192):
            choices = [
                kernel.choose(spec(4, hidden, torch.bfloat16, True), "sm_90", tokens) for tokens in (1, 256, 257)
            ]
            assert choices == ["few", "few", "overlapped"], (op, hidden)
    if os.environ.get("TRITON_INTERPRET") != "1":
        return
    x, *mapping = torch.randn(2, 4, 128), torch.randn(24, 4 * 128), torch.ones(3), torch.randn(24), torch.rand(4, 128)
    written = torch.randn(2, 128), torch.rand(2, 4), torch.rand(2, 4, 4), torch.rand(2, 4)
    for module, inputs in (
        (mhc_pre, MhcPreInputs(x, *mapping)),
        (mhc_pre_norm, MhcPreNormInputs(x, *mapping, torch.rand(128))),
        (mhc_pre_norm_fp8, MhcPreNormFp8Inputs(x, *mapping, torch.rand(128))),
        (mhc_coefficients, MhcCoefficientsInputs(x, *mapping)),
        (mhc_single_pass, MhcSinglePassInputs(x, *written, *mapping, torch.rand(128))),
        (mhc_single_pass_fp8, MhcSinglePassFp8Inputs(x, *written, *mapping, torch.rand(128))),
    ):
        op = module.__name__.rpartition(".")[2]
        outputs = [module.empty_outputs(inputs) for _ in range(2)]
        for name, out in zip(("few", "overlapped"), outputs, strict=True):
            backends.load("triton", op).variants[name].run(inputs, out)
        assert all(map(torch.equal, *outputs)), op


def test_triton_refuses_what_no_variant_supports():
    pytest.importorskip("triton")
    kernel = backends.load("triton", "mhc_pre")
    spec = MhcPreSpec(17, 200, torch.float32, True)
    assert "17 streams" in kernel.supports(spec, "sm_90")
    with pytest.raises(backends.NotSupportedError, match="17 streams") as caught:
        kernel.compile(spec, "sm_90")
    assert caught.value.stage == "lower"
    fp8, single = MhcSinglePassFp8Spec(4, 256, torch.float32, True), backends.load("triton", "mhc_single_pass_fp8")
    assert "from sm_89 on" in single.supports(fp8, "sm_86")
    assert [single.supports(fp8, target) for target in ("sm_89", "gfx942")] == [None, None]
    variants = kernel.variants
    four = MhcPreSpec(4, 200, torch.float32, True)
    assert "no GPU" in variants["products"].supports(four, "x86-64-v3")
    assert "24" in variants["registers"].supports(MhcPreSpec(5, 200, torch.float32, True), "sm_90")
    assert "precision" in variants["tf32"].supports(four, "sm_90")
    assert "NVIDIA" in variants["tf32"].supports(MhcPreSpec(4, 200, torch.float32, True, precision="tf32"), "gfx942")
    assert "bf16" in variants["bf16x3"].supports(four, "sm_90")
    assert "sm_90" in variants["bf16x3"].supports(MhcPreSpec(4, 200, torch.bfloat16, True), "sm_80")


@pytest.mark.parametrize(("target", "streams", "times"), [("gfx942", 4, 1), ("gfx942", 5, 1), ("sm_80", 4, 2)])
def test_triton_compiles_once_for_both_precisions_what_is_one_kernel(monkeypatch, target, streams, times):
    pytest.importorskip("triton")
    from mhc.backends.triton import kernel as triton_kernel

    compiled = []

    def compile_sources(name, *sources):
        compiled.append(sources)
        return backends.Artifact("hsaco", name, bytes([len(compiled)]))

    monkeypatch.setattr(triton_kernel, "compile_sources", compile_sources)
    kernel = backends.load("triton", "mhc_pre")
    # A hidden size that no other test compiles: a kernel keeps what it compiled.
    specs = [MhcPreSpec(streams, 8 * 41, torch.float32, True, precision=each) for each in ("fp32", "tf32")]
    fp32, tf32 = (kernel.compile(spec, target) for spec in specs)
    assert len(compiled) == times
    assert (fp32.data == tf32.data) == (times == 1)


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="Triton's interpreter is off")
@pytest.mark.parametrize("op", ["mhc_pre", "mhc_post"])
def test_every_mask_in_the_interpreter_is_of_one_bit(op, monkeypatch):
    """Triton 3.9 refuses others. With nine streams, programs have some of the mixes or rows each."""
    from triton.runtime import interpreter

    masks = set()

    def watched(name, place):
        method = getattr(interpreter.InterpreterBuilder, name)

        def masked(self, *arguments, **options):
            masks.add(str(arguments[place].data.dtype))
            return method(self, *arguments, **options)

        monkeypatch.setattr(interpreter.InterpreterBuilder, name, masked)

    watched("create_masked_load", 1)
    watched("create_masked_store", 2)
    n, hidden = 9, 16
    leaf = functools.partial(torch.zeros, requires_grad=True)
    mapping = leaf(n * (n + 2), n * hidden), leaf(3), leaf(n * (n + 2)), leaf(n, hidden)
    others = {"mhc_pre": mapping, "mhc_post": (leaf(2, hidden), leaf(2, n), leaf(2, n, n))}
    out = getattr(mhc, op)(leaf(2, n, hidden), *others[op], backend="triton")
    sum(each.sum() for each in (out if op == "mhc_pre" else (out,))).backward()
    assert masks == {"bool"}
