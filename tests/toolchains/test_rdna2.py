"""The opcodes of RDNA 2, which the emulator reads as RDNA 3's, are those of LLVM's assembler."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from common import python_of
from in_environment import run
from interpreters import kept_interpreter

pytestmark = [pytest.mark.environments, pytest.mark.nightly]

PROGRAM = Path(__file__).with_name("gfx_rdna2.py")
# An exchange has its expected value behind the new one on RDNA 3, and a wait has its counts at other bits.
MOVED = {f"ds_cmpstore_{form}" for form in ("b32", "f32", "b64", "f64")}
MOVED |= {name.replace("store_", "store_rtn_") for name in MOVED} | {"s_waitcnt"}


@cache
def results() -> dict[tuple[str, str], str]:
    """Return what is said of each opcode that both families have."""
    lines = [
        json.loads(line) for line in run(python_of("triton-3.7", "rocm"), PROGRAM, **kept_interpreter()).splitlines()
    ]
    return {(encoding, name): said for encoding, name, said in lines}


def test_opcodes_and_fields_are_read_as_those_that_llvm_assembles_for_rdna_3():
    different = {name: said for (_, name), said in results().items() if said != "same"}
    assert set(different) == MOVED
    assert len(results()) - len(different) >= 1305


def test_an_exchange_has_its_two_values_the_other_way_round_and_a_wait_its_counts():
    said = {name: text for (_, name), text in results().items()}
    assert "('data0', 31), ('data1', 30)" in said["ds_cmpstore_rtn_b32"].partition("not")[0]
    assert "('data0', 30), ('data1', 31)" in said["ds_cmpstore_rtn_b32"].partition("not")[2]
    assert "('simm16', 3072)" in said["s_waitcnt"].partition("not")[0]
