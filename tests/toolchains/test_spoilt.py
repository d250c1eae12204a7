"""Most edits of a handler of an emulator are seen by the tests of its single instructions."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path

import pytest
from common import ROOT, python_of
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


def test_most_edits_of_handlers_of_ptx_are_seen_by_the_tests_of_its_opcodes():
    """Most of the others change nothing, but for wgmma, which programs of Triton run (``test_nvidia_emulator.py``)."""
    program = Path(__file__).with_name("ptx_spoilt.py")
    variables = {
        **unoptimized(),
        "PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in ("src", "tests/support")),
    }
    lines = [json.loads(line) for line in run(Path(sys.executable), program, **variables).splitlines()]
    assert len(lines) > 250
    assert {name.split("_")[0] for _, name, _, told in lines if told == "no test"} <= {"wgmma"}
    assert sum(bool(told) for *_, told in lines) >= 0.75 * len(lines), [line for line in lines if not line[-1]]
