"""Numbers of 8 bits, their products, MODE, what LLVM publishes, and what is older: compared with a second opinion."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from common import python_of
from in_environment import results_of
from interpreters import kept_interpreter

pytestmark = pytest.mark.environments

PROGRAM = Path(__file__).with_name("gfx_numbers.py")
KINDS = {
    "published": "^published",
    "product": "mfma|wmma",
    "move": "^move",
    "older": "v_ma[cd]|parts",
    "arithmetic": "^v_",
}


def test_conversions_products_of_bytes_and_arithmetic_in_each_mode_have_the_bits_of_a_second_opinion():
    results = results_of(python_of("triton-3.7", "rocm"), PROGRAM, **kept_interpreter())
    assert {place: wrong for place, wrong in results.items() if wrong} == {}
    kinds = Counter(
        "own"
        if target == "gfx1250" and "wmma" not in name
        else next((kind for kind, form in KINDS.items() if re.search(form, name)), "conversion")
        for name, target in results
    )
    assert kinds.pop("own") >= 71
    assert kinds == {"conversion": 26, "product": 166, "arithmetic": 16, "published": 18, "older": 9, "move": 11}
