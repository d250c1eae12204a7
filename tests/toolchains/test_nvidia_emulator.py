"""The emulator of PTX: kernels of Triton give right numbers on it, and what is wrong with them is found."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from common import python_of
from in_environment import results_of, run
from interpreters import kept_interpreter

pytestmark = [pytest.mark.environments, pytest.mark.nightly]  # by day test_ptx_opcodes.py has the instructions

PROGRAMS = Path(__file__).with_name("ptx_programs.py")
TARGETS = ("sm_80", "sm_90")


@pytest.fixture(scope="module")
def python() -> Path:
    """Return the interpreter with Triton."""
    return python_of("triton-3.7", "rocm")


@pytest.fixture(scope="module")
def variables(tmp_path_factory) -> dict[str, str]:
    """Return where compiled code is kept."""
    return {**kept_interpreter(ptx=True), "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton"))}


@pytest.fixture(scope="module")
def results(python, variables) -> dict[tuple[str, str], dict]:
    """Run all programs, and return the result of each."""
    return results_of(python, PROGRAMS, **variables)


def test_kernels_of_sums_integers_and_quotients_give_the_bits_of_pytorch(results):
    assert [results["sums", target] for target in TARGETS] == [{"same": True}] * 2
    assert results["integers", "sm_80"] == {"same": True}
    assert results["quotients", "sm_80"] == {"wrong": []}


@pytest.mark.parametrize("target", TARGETS)
def test_a_softmax_with_reductions_over_four_warps_is_right(results, target):
    assert results["softmaxes", target]["error"] < 2e-7
    assert results["repeated", "sm_80"]["error"] < 1e-6  # lanes that write one place with other last bits


@pytest.mark.parametrize("program", ["products", "wide_products"])
@pytest.mark.parametrize("target", TARGETS)
def test_products_of_matrices_are_right_in_the_layouts_of_mma_and_wgmma(results, target, program):
    errors = results[program, target]["errors"]
    assert len(errors) == 3
    for dtype, error in errors.items():
        assert error < (2e-3 if dtype == "float32" else 1e-6), dtype  # factors of 10 bits in TF32


@pytest.mark.parametrize("target", TARGETS)
def test_sums_in_fp16_may_be_unpacked_in_front_of_their_wait(results, target):
    result = results["narrow_sums", target]
    assert result["error"] < 2e-3
    assert len(result["without a wait"]) == (target == "sm_90")
    assert all("no wait" in found for found in result["without a wait"])


def test_atomics_of_several_blocks_add_up(results):
    assert results["atomics", "sm_80"] == {"counts": [96] * 8}


def test_a_read_behind_a_tensor_is_found_with_its_tensor_and_its_line(results):
    found = results["outside", "sm_80"]["found"]
    assert [kind for kind, _ in found] == ["read outside"] * 2
    source = PROGRAMS.with_name("gfx_programs.py").read_text().splitlines()
    line = next(n for n, text in enumerate(source, 1) if "tl.load(x + i) +" in text)
    for (_, text), name in zip(found, "xy", strict=True):
        assert re.match(rf"add_without_mask\+0x\w+ \(gfx_programs\.py:{line}\): ld\.global\.v4\.b32 reads 16 ", text)
        assert f"begin 0 bytes behind the end of {name} (4000 bytes) (warp 3" in text


def test_an_instruction_that_is_not_known_is_named(results):
    text = "UnknownInstructionError: tcgen05.fence::after_thread_sync  (k.py:7)"
    assert results["named", "sm_80"] == {"error": text}


@pytest.mark.parametrize("target", TARGETS)
def test_waits_barriers_and_loads_that_are_left_out_are_found(results, target):
    counts = results["mutants", target]
    assert counts["barrier"]["mutants"] - counts["barrier"]["nothing"] >= 0.9 * counts["barrier"]["mutants"] > 8
    waits = ["copy's wait", *(["product's wait"] if target == "sm_90" else [])]
    for kind in waits:
        assert counts[kind]["no wait"] == counts[kind]["mutants"] > 1
    assert counts["load"]["undefined"] >= 0.7 * counts["load"]["mutants"] > 10


@pytest.mark.parametrize("target", TARGETS)
def test_every_variant_of_every_operator_computes_what_the_reference_computes(python, variables, target):
    lines = run(python, PROGRAMS.with_name("ptx_operators.py"), target, **variables).splitlines()
    cases = [json.loads(line) for line in lines]
    assert len({(case["op"], case["direction"]) for case in cases}) == (12 if target == "sm_80" else 13)
    assert len(cases) >= (36 if target == "sm_80" else 49)
    assert not [case for case in cases if "raised" in case]
    # bf16x3 has three products of bf16 for one of fp32; its gradients are rounded to bf16 differently once in a while.
    limits = {"bfloat16": 4e-3, "float32": 2e-6}
    wrong = [case for case in cases if not max(case["errors"].values()) <= limits[case["dtype"]]]
    assert not wrong
