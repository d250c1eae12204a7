"""Most edits of a handler of the emulator of AMD's GPUs are seen by the tests of single instructions."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from common import python_of
from in_environment import run
from interpreters import unoptimized

pytestmark = [pytest.mark.environments, pytest.mark.nightly]


def test_two_of_three_edits_of_signs_widths_roundings_comparisons_and_orders_are_seen():
    """Most of the others change nothing: a sign of what has none, a rounding of what is exact, or within one unit."""
    program = Path(__file__).with_name("gfx_spoilt.py")
    lines = [json.loads(line) for line in run(python_of("triton-3.7", "rocm"), program, **unoptimized()).splitlines()]
    seen = Counter(bool(told) and told != "no test" for *_, told in lines)
    assert seen.total() > 450
    assert seen[True] >= seen.total() * 2 / 3, [line for line in lines if line[-1] in ("", "no test")]
