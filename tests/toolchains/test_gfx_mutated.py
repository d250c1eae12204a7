"""Of mutants of machine code that nobody chose most are red; what has the same bits is equivalent, or did not run."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from common import python_of
from in_environment import run
from interpreters import kept_interpreter

pytestmark = [pytest.mark.environments, pytest.mark.nightly]

# The bits of `or` never meet, no bound is equal, and no address of these kernels crosses the border.
SAME_HERE = {"or is exclusive", "a scalar less is less or equal", "a carry is lost"}


def test_of_each_kind_of_mutant_one_is_red_and_each_barrier_and_access_to_the_lds(tmp_path):
    variables = {**kept_interpreter(), "TRITON_CACHE_DIR": str(tmp_path)}
    program = Path(__file__).with_name("gfx_mutated.py")
    lines = run(python_of("triton-3.7", "rocm"), program, "gfx942", "gfx1100", **variables).splitlines()
    red = defaultdict(list)
    for _, _, kind, _, seen in map(json.loads, lines):
        red[kind].append(bool(seen))
    assert len(red) > 30
    assert sum(map(sum, red.values())) >= 0.75 * len(lines) > 300
    assert {kind for kind, seen in red.items() if not any(seen)} <= SAME_HERE
    whole = ("a barrier is left out", "a store to the LDS is left out", "a load of the LDS is left out")
    assert all(all(red[kind]) for kind in whole)
    assert sum(red["a wait is left out"]) >= 0.8 * len(red["a wait is left out"])
