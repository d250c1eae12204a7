"""Kernels of other backends than Triton on the emulator: right ones are right, and what is changed in them is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from common import python_of
from in_environment import run
from interpreters import kept_interpreter

pytestmark = [
    pytest.mark.environments,
    pytest.mark.nightly,
]  # test_amd_emulator.py: faults by day

PROGRAM = Path(__file__).with_name("gfx_backends.py")
FOUND = {
    "right": "",
    "fewer_blocks": "other numbers",
    "more_blocks": "read outside; write outside",
    "fewer_threads": "other numbers",
    "shorter": "read outside; write outside",
    "exchanged": "read outside",
}


def test_faults_in_launches_and_in_the_machine_code_of_tvm_are_found():
    output = run(python_of("tvm-0.27", "rocm"), PROGRAM, **kept_interpreter(), MHC_CACHE_DIR="")
    targets = [json.loads(line) for line in output.splitlines() if line.startswith('["')]
    assert [target for target, _, _ in targets] == ["gfx942", "gfx1100"]
    for target, launches, left_out in targets:
        assert launches == FOUND, target
        assert set(left_out["barrier"]) == {"race"}, target
        assert left_out["wait"]["no wait"] >= 0.8 * sum(left_out["wait"].values()) > 10, target
        assert "nothing" not in left_out["load"], target
