"""Triton's interpreter prepares its language once for a launch: ``triton_interpreter.py`` tries it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from common import python_of
from in_environment import run

pytestmark = pytest.mark.environments


def test_a_language_that_is_prepared_once_gives_the_same_bits_and_is_given_back():
    program = Path(__file__).with_name("triton_interpreter.py")
    answer = json.loads(run(python_of("triton-3.7", "cpu-llvm"), program, TRITON_INTERPRET="1"))
    of_triton, *of_package = answer.pop("prepared")
    assert answer == {"replaced": True, "same bits": True, "left alike": True, "given back": True}
    # Triton prepares it for each function that the kernel calls.
    assert of_triton > 10 * max(of_package)
    assert min(of_package) > 0
