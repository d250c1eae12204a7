"""Opcodes of RDNA 2, which the emulator reads as RDNA 3's, and of gfx1250 are those of LLVM's assembler."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from common import python_of
from in_environment import run
from interpreters import kept_interpreter

from gpu_emulators.amd import gfx1250
from gpu_emulators.common.errors import UnknownInstructionError

PROGRAM = Path(__file__).with_name("gfx_assembled.py")
# An exchange has its expected value behind the new one on RDNA 3, and a wait has its counts at other bits.
MOVED = {f"ds_cmpstore_{form}" for form in ("b32", "f32", "b64", "f64")}
MOVED |= {name.replace("store_", "store_rtn_") for name in MOVED} | {"s_waitcnt"}


@cache
def results(target: str) -> dict[tuple[str, str], str]:
    """Return what is said of each opcode that the target and the one with its tables have, and of the target's own."""
    output = run(python_of("triton-3.7", "rocm"), PROGRAM, target, **kept_interpreter())
    return {(encoding, name): said for encoding, name, said in map(json.loads, output.splitlines())}


@pytest.mark.environments
@pytest.mark.nightly
def test_opcodes_and_fields_are_read_as_those_that_llvm_assembles_for_rdna_3():
    different = {name: said for (_, name), said in results("gfx1030").items() if said != "same"}
    assert set(different) == MOVED
    assert len(results("gfx1030")) - len(different) >= 1305


@pytest.mark.environments
@pytest.mark.nightly
def test_an_exchange_has_its_two_values_the_other_way_round_and_a_wait_its_counts():
    said = {name: text for (_, name), text in results("gfx1030").items()}
    assert "('data0', 31), ('data1', 30)" in said["ds_cmpstore_rtn_b32"].partition("not")[0]
    assert "('data0', 30), ('data1', 31)" in said["ds_cmpstore_rtn_b32"].partition("not")[2]
    assert "('simm16', 3072)" in said["s_waitcnt"].partition("not")[0]


@pytest.mark.environments
@pytest.mark.nightly
def test_gfx1250_is_read_as_llvm_assembles_what_rdna_4_has_too_what_it_lacks_and_two_at_once():
    said = results("gfx1250")
    assert {name: text for (_, name), text in said.items() if text != "same"} == {}
    kinds = Counter(encoding for encoding, _ in said)
    assert [kinds.pop(kind) for kind in ("own", "upper", "two")] == [75, 15, 94]
    assert kinds.total() >= 1480


def test_what_only_rdna_4_has_and_what_has_a_longer_opcode_is_refused_on_gfx1250():
    def read(word: int) -> gfx1250.Found | None:
        return gfx1250.found(word.to_bytes(16, "little"))

    assert read(0xBFC50000).name == "s_wait_xcnt"
    assert read(0xCF208101).name == "v_dual_mov_b32 v_dual_mov_b32"
    assert read(0xBF800000) is None  # s_nop
    with pytest.raises(UnknownInstructionError, match="the opcode 9 of SOPP"):
        read(0xBF890000)
    with pytest.raises(UnknownInstructionError, match="the opcode 136 of VOP3P"):
        read(0xCC880000)
    with pytest.raises(UnknownInstructionError, match="a pair with the opcode 31"):
        read(0xCF000000 | 31 << 18)
