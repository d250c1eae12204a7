"""Faults of public reports, and faults in single instructions: which of them the emulator of AMD's GPUs shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from common import python_of
from in_environment import results_of
from interpreters import kept_interpreter

pytestmark = pytest.mark.environments

TARGETS = ("gfx942", "gfx1100")
EDITED = {
    "the descriptor of a buffer has no end": "read outside",
    "a wait is for one load too few": "no wait",
    "a mask leaves a row of lanes out": "other numbers",
    "a mask leaves a bank of lanes out": "other numbers",
    "lanes are moved by one, not by two": "other numbers",
    "the upper half gets another row": "other numbers",
    "the wave is taken for one of 32 lanes": "other numbers",
    "the other row gives its first lane": "other numbers",
    "the mask of lanes is lost": "LDS outside",
    "a value is behind the end of the LDS": "LDS outside",
    "the factors of a product are exchanged": "other numbers",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[tuple[str, str], dict]:
    """Run all kernels, and return what was said of each."""
    variables = {**kept_interpreter(), "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton"))}
    return results_of(python_of("triton-3.7", "rocm"), Path(__file__).with_name("gfx_faults.py"), **variables)


@pytest.mark.parametrize("target", TARGETS)
def test_waves_that_write_rows_of_each_other_race_although_the_numbers_are_right(results, target):
    told = results["lanes", target]
    assert told["True"] == []
    assert told["True same"]
    assert told["False same"], "the waves run in turn, and the right one comes last"
    assert any(
        one.startswith("race in memory: stored_by_lane+0x") and "wave 0 of workgroup 0 wrote it" in one
        for one in told["False"]
    )


@pytest.mark.parametrize("target", TARGETS)
def test_an_output_that_one_workgroup_sets_to_zero_races_with_what_the_others_add(results, target):
    told = results["zeroes", target]
    assert told["True"] == []
    assert told["False same"]
    assert any("wave 0 of workgroup 0 wrote it, and nothing orders the two" in one for one in told["False"])


@pytest.mark.parametrize("target", TARGETS)
def test_a_value_that_is_handed_on_behind_an_atomic_does_not_race(results, target):
    assert results["order", target] == {"found": []}


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_wave_reads_in_a_race_is_a_fault_only_if_it_is_used(results, target):
    told = results["in_place", target]
    assert told["turned"] == []
    assert any("load" in one and "of workgroup 0 wrote it" in one for one in told["shifted"])


@pytest.mark.parametrize("target", TARGETS)
def test_two_products_into_one_accumulator_are_right(results, target):
    assert results["dots", target]["found"] == []
    assert results["dots", target]["error"] < 1e-6


def test_a_half_that_writes_what_the_other_half_may_still_be_reading_is_found(results):
    told = results["turns", "gfx942"]
    assert any("may still be reading" in one and one.startswith("no wait") for one in told["turns"])
    assert told["turns same"], "a read gives its value at once here"
    assert told["together"] == []


def test_data_of_a_wide_store_that_is_overwritten_too_early_is_found(results):
    told = results["late", "gfx942"]
    assert told["whole"] == []
    assert ["overwritten"] in told["without"]


def test_faults_in_single_instructions_that_no_other_lane_has_are_found(results):
    found = {target: results["instructions", target] for target in TARGETS}
    for told in found.values():
        whole = [told.pop(f"{kernel} as it is") for kernel in ("add", "softmax", "dot")]
        assert whole == [[]] * 3
        assert not [name for name, kinds in told.items() if EDITED[name] not in kinds]
    assert set(EDITED) == {name for told in found.values() for name in told}
