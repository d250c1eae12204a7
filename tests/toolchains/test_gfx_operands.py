"""Every opcode of the emulator of AMD's GPUs takes constants and scalar registers for what its pseudocode says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from common import python_of
from covering import with_the_night
from in_environment import run
from interpreters import kept_interpreter

pytestmark = pytest.mark.environments

PROGRAM = Path(__file__).with_name("gfx_operands.py")
# A product of fp16 and fp32 does not say what a constant is that it reads as fp16. AMD's tables of types are taken, and
# not the text, for a power of two in fp16 and for the highest bits of a long integer, which has a sign.
OTHERWISE = re.compile("_mix|v_ldexp_f16 1|s_(flbit|cls)_i32_i64")
LEAST = {"cdna": 734, "rdna3": 767, "rdna4": 781}


@pytest.mark.parametrize("family", LEAST)
def test_each_opcode_takes_each_operand_in_each_place_as_a_register_with_the_same_bits(request, family):
    night = with_the_night(request)
    lines = run(
        python_of("triton-3.7", "rocm"), PROGRAM, family, *([] if night else ["by-day"]), **kept_interpreter()
    ).splitlines()
    results = {form: result for _, form, result in map(json.loads, lines)}
    assert {form: one for form, one in results.items() if one != "same" and not OTHERWISE.search(form)} == {}
    assert len(results) >= (LEAST[family] if night else 250)
