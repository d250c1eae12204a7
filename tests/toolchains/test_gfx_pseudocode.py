"""Each opcode of the emulator does what AMD's pseudocode says, on random and special values in every lane."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from common import python_of
from in_environment import run
from interpreters import kept_interpreter
from loops import at_least

pytestmark = [pytest.mark.environments, pytest.mark.nightly]  # by day test_amd_emulator.py runs kernels of each family

PROGRAM = Path(__file__).with_name("gfx_pseudocode.py")
LEAST = {"cdna": 669, "rdna3": 708, "rdna4": 692}
FAMILIES = ("cdna", "rdna3", "rdna4")
# The text of these is no description of a division that IEEE 754 asks for; test_amd_emulator.py divides instead. By the
# text a fraction of a tiny negative number is one; gfx_published.py has LLVM's results. In fp16 the text rounds twice.
# A power of two that is too large makes NaN of zero there, an angle is multiplied in fp32, bf16 is an integer, and of
# 2 / pi the evaluator has 53 bits. The register behind a count is no part of it.
NOT_AS_THE_TEXT = re.compile(
    r"v_(div_(fmas|fixup)(_legacy)?|fract|ldexp)_f\d\d|v_rndne_f16|v_(sin|cos|trig_preop)_f\d\d|VOP3P v_dot2_f32_bf16"
    r"|s_bcnt0_i32_b64"
)
# These have no pseudocode, or it names registers of other lanes. The kernels of test_amd_emulator.py use most of them,
# and ``gfx_1250.py`` compares the pairs with NumPy.
NOT_COVERED = re.compile(
    r"s_waitcnt_(vm|lgkm)cnt|v_(accvgpr_\w+|permlane\w+|readfirstlane_b32|readlane_b32|writelane_b32"
    r"|div_scale_f\d\d|swap_b32|cvt_pk_[iu]16_f32"
    r"|m(ax|in)imum3_f32|pk_m(ax|in)imum3_f16)$"
)


@cache
def results_of(family: str) -> dict[str, str]:
    """Return what each opcode of a family did otherwise than its pseudocode; ``same`` where nothing."""
    python = python_of("triton-3.7", "rocm")
    lines = [json.loads(line) for line in run(python, PROGRAM, family, **kept_interpreter()).splitlines()]
    return {form: result for _, form, result in lines}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_opcodes_do_what_their_pseudocode_says(family):
    wrong = {
        form: result
        for form, result in at_least(50, results_of(family).items())
        if result != "same" and not (NOT_AS_THE_TEXT.search(form) or NOT_COVERED.search(form))
    }
    assert wrong == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_most_opcodes_are_compared(family):
    counts = Counter(result == "same" for result in results_of(family).values())
    assert counts[True] >= LEAST[family]


def test_the_evaluator_reads_sums_parts_loops_and_signs():
    from pseudocode import Evaluator, Parser, Value

    def evaluated(text: str, **operands: int) -> int:
        names = {name: Value(bits, 64, "b") for name, bits in operands.items()} | {"D0": Value(0, 64, "b")}
        Evaluator(names, lambda name, _: pytest.fail(name)).run(Parser(text).block(""))
        return names["D0"].bits

    assert evaluated("D0.u32 = S0.u32 + S1.u32", S0=3, S1=4) == 7
    assert evaluated("D0.u32 = S0.u32 - S1.u32", S0=3, S1=4) == 0xFFFFFFFF
    assert evaluated("D0.i32 = 32'I(signext(S0.i16))", S0=0x8000) == 0xFFFF8000
    assert evaluated("D0.f32 = fma(S0.f32, S1.f32, S0.f32)", S0=0x40000000, S1=0x40400000) == 0x41000000
    assert evaluated("D0.u32[31 : 0] = S0.u32[0 : 31]", S0=1) == 0x80000000
    text = "tmp = 0; for i in 0 : 31 do if S0.u32[i] == 1'1U then tmp = i; break endif endfor; D0.i32 = tmp"
    assert evaluated(text, S0=0x30) == 4
