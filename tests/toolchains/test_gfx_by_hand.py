"""Kernels of a few instructions: what the emulator of AMD's GPUs finds in those that are wrong, and in no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from common import python_of
from in_environment import results_of
from interpreters import kept_interpreter

pytestmark = pytest.mark.environments


@pytest.fixture(scope="module")
def results() -> dict[str, dict]:
    """Run all kernels, and return what was said of each."""
    program = Path(__file__).with_name("gfx_by_hand.py")
    told = results_of(python_of("triton-3.7", "rocm"), program, **kept_interpreter())
    return {name: result for (name, _), result in told.items()}


def test_the_last_wave_has_no_more_lanes_than_the_workgroup_has_threads(results):
    assert results["partial"] == {"found": [], "same": True}


def test_a_carry_that_an_address_loses_is_found(results):
    told = results["carries"]
    assert (told["carry"], told["carry same"], told["none same"]) == ([], True, False)
    assert len(told["none"]) == 1
    assert "global_store_b32 writes 4 bytes that begin 429" in told["none"][0]


def test_lanes_of_a_wave_that_store_different_values_to_one_place_are_found(results):
    told = results["places"]
    assert told["same"] == []
    assert told["numbers"] == [
        (
            "k+0x1c: global_store_b32 stores from byte 0 of out on, which has 256, where lane 0 of the same wave "
            "stores another value, and nothing orders the two (wave 0)"
        )
    ]


def test_a_barrier_that_lanes_leave_out_is_found_where_they_go_on_later(results):
    told = results["barriers"]
    assert [told[name] for name in ("all", "ended", "part")] == [[]] * 3
    assert told["go on"] == [
        "k+0x20: s_barrier is passed without lanes 8-31, which go on later: they were elsewhere in the code (wave 0)"
    ]


def test_a_product_needs_the_registers_and_lanes_that_it_takes_its_factors_from_and_no_others(results):
    undefined = ["global_store_dword uses v8 as data of a store, and nothing was written there (wave 0)"]
    told = results["products"]
    for name in ("both halves", "bytes", "one register", "lanes of the pattern", "the block", "a sum"):
        assert told.pop(name) == [], name
    lacking = (
        "one half",
        "half of the second",
        "half of the bytes",
        "lanes",
        "another block",
        "half of a sum",
        "lanes of a sum",
    )
    assert told == dict.fromkeys(lacking, undefined)


def test_loads_that_transpose_give_each_lane_a_column(results):
    assert len(results["transposed"]) == 4
    assert {name: told for name, told in results["transposed"].items() if told is not True} == {}


def test_a_trap_ends_its_lanes_with_a_finding_and_that_of_a_debugger_goes_on(results):
    told = results["traps"]
    assert told["abort"] == [
        "k+0x28: s_trap ends lanes 0-7 and the launch: an assertion that does not hold, or an abort (wave 0)"
    ]
    assert (told["abort stored"], told["debug"], told["debug stored"]) == (8, [], 32)
    assert told["other"] == ["gfx1100: s_trap 7 (at 0x18 of the kernel)"]


def test_what_no_wave_can_come_to_need_not_be_known(results):
    """Behind a trap LLVM makes a loop that halts the wave on RDNA 3."""
    assert (results["traps"]["around"], results["traps"]["around stored"]) == ([], 32)


def test_a_loop_without_an_end_is_told_with_its_instructions_and_lanes(results):
    assert results["loops"]["found"] == [
        (
            "k ran past its end, or a workgroup past 10000 instructions; "
            "k+0x1c: v_mov_b32 begins 2 instructions that lanes 0-7 repeat without an end (wave 0)"
        )
    ]


def test_an_address_of_the_lds_has_32_bits(results):
    told = results["wraps"]
    assert (told["inside"], told["inside same"]) == ([], True)
    assert len(told["outside"]) == 2
    assert all("from byte 4294967232 of the LDS on, past its end" in one for one in told["outside"])


def test_atomics_of_waves_meet_in_the_lds_and_race_with_stores_alone(results):
    told = results["atomics"]
    assert (told["added"], told["added all"]) == ([], [32] * 64)
    assert (told["counted"], told["counted all"]) == ([], sorted([*range(41), *range(23)]))
    assert any("ds_store_b32 races at byte" in one for one in told["stored"])
    assert any("ds_load_b32 races at byte" in one for one in told["read"])


def test_a_loop_around_an_exchange_in_the_lds_reads_the_old_value_without_a_race(results):
    told = results["atomics"]
    assert (told["exchanged"], told["exchanged all"]) == ([], [1] * 64)
    assert any("ds_load_b32 races at byte" in one for one in told["exchanged and added"])


def test_every_atomic_on_integers_combines_as_its_type_says_in_memory_and_in_the_lds(results):
    told = results["combined"]
    assert len(told) == 24
    assert {name: one for name, one in told.items() if one is not True} == {}


def test_a_pointer_that_a_tensor_holds_is_named_as_what_is_not_mapped(results):
    [told] = results["pointers"]["found"]
    assert "reads 4 bytes at 0x" in told
    assert "a pointer that a tensor holds is not mapped" in told


def test_a_numerator_is_scaled_where_hardware_scales_it(results):
    told = results["quotients"]
    assert (told["found"], told["flags"]) == ([], [1, 1, 1, 1, 1, 0, 1])
    assert told["numbers"][3:] == [2.0**-62, 1, 6, 1]
    assert all(number != number for number in told["numbers"][:3])


def test_a_wait_is_for_its_own_counter(results):
    told = results["waits"]
    assert (told["memory"], told["all"]) == ([], [])
    assert told["LDS"] == ["global_store_b32 uses v2 before what fills it is known to be there (no wait) (wave 0)"]


def test_scalars_of_rdna_4_are_loaded_from_one_and_two_bytes(results):
    numbers = [0x7E, 0x81, 0x7E, -0x7F, 0xFF7E, 0x8081, -0x82, -0x7F7F]
    assert results["parts"] == {"found": [], "numbers": numbers}


def test_parts_of_registers_are_loaded_and_stored_with_their_sign_and_the_rest_stays(results):
    for name, least in (("loaded", 25), ("kept", 14)):
        assert len(results[name]) >= least
        assert {part: told for part, told in results[name].items() if told is not True} == {}


def test_data_of_a_store_may_be_written_by_the_lds_and_not_by_a_vector_instruction(results):
    told = results["overwritten"]
    assert ["writes v5 0 wait states after a store that may still read it" in one for one in told.pop("vector")] == [
        True
    ]
    assert told == {"permuted": [], "swizzled": [], "loaded": []}


def test_a_function_is_called_and_comes_back_and_a_jump_to_no_code_is_found(results):
    told = results["calls"]
    assert (told["there"], told["there same"], told["nowhere same"]) == ([], True, False)
    assert len(told["nowhere"]) == 1
    assert re.fullmatch(
        r"k\+0x24: s_swappc_b64 goes to the address 0x\w+, which the emulator does not know \(wave 0\)",
        told["nowhere"][0],
    )


def test_a_thread_knows_its_place_in_a_block_of_three_directions(results):
    assert results["blocks"] == {"found": [], "packed": True, "apart": True}


def test_what_a_launch_asks_for_is_behind_the_lds_that_the_kernel_has(results):
    assert results["shares"]["inside"] == []
    assert "ds_store_b32 uses 4 bytes from byte 128 of the LDS on, past its end" in results["shares"]["outside"][0]


def test_bits_of_a_register_that_nobody_wrote_are_none_of_a_result_that_does_not_depend_on_them(results):
    told = results["bits"]
    assert {name for name, found in told.items() if not found} == {"both", "none left"}
    undefined = "global_store_b32 uses v2 as data of a store, and nothing was written there"
    assert all(undefined in found for lines in told.values() for found in lines)


def test_a_register_is_written_and_read_whose_number_m0_says(results):
    told = results["indexed"]
    assert (told["to"], told["to same"], told["from"], told["from same"]) == ([], True, [], True)
    assert "uses v2 as data of a store, and nothing was written there" in told["other"][0]


def test_an_address_without_a_space_of_its_own_leads_to_the_lds(results):
    told = results["spaces"]
    for name in ("written", "read", "parts", "no race", "added"):
        assert told[name] == [], name
    for name in ("written", "read", "parts"):
        assert told[f"{name} out"] == list(range(64)), name
    assert told["added out"] == [sum(range(64))] * 64
    assert told["no race out"] == [*range(32, 64), *range(32)]


def test_faults_in_the_lds_are_found_through_such_an_address_too(results):
    found = {name: " ".join(lines) for name, lines in results["spaces"].items() if "out" not in name.split()[-1:]}
    assert "uses v4 as data of a store, and nothing was written there" in found["unwritten"]
    assert "flat_store_b32 uses 4 bytes from byte 256 of the LDS on, past its end" in found["outside"]
    assert "flat_load_b32 races at byte 0 of the LDS: wave 0 wrote it, and no barrier is between" in found["a race"]
    assert "s_barrier is passed before what the wave wrote to the LDS is known to be there" in found["no wait"]
    assert "uses v4 before what fills it is known to be there" in found["no wait for a load"]


def test_an_address_without_a_space_of_its_own_leads_to_a_lane_s_private_memory(results):
    told = results["spaces"]
    assert (told["private"], told["private out"]) == ([], list(range(64)))
    assert "flat_store_b32 writes 4 bytes at 0xc" in told["outside private"][0]
    assert any(
        "goes to the address 0x2000000000000, which the emulator does not know" in one for one in told["an atomic"]
    )
    assert results["lanes"] == {"found": [], "same": True}


def test_a_spilled_scalar_may_be_one_that_nobody_wrote_and_an_address_of_private_memory_is_one_scalar(results):
    told = results["spills"]
    assert [told[name] for name in ("spilled", "the next scalar")] == [[], []]
    for name, register in (("another", "v10"), ("by a scalar", "v9")):
        assert f"uses {register} as a scalar, and nothing was written there" in told[name][0]
    assert "scratch_load_dword uses s34 0 wait states after v_readlane_b32" in told["the scalar"][0]


def test_what_asks_the_host_is_refused_by_its_name_and_the_argument_alone_is_not(results):
    told = results["asks"]
    [printf], [malloc] = told["printf"], told["malloc"]
    assert "global_load_b32 asks the host: printf, or the message of an assertion that does not hold," in printf
    assert "s_load_b32 asks the host: malloc or free is not known" in malloc
    assert told["none"] == []


def test_the_packet_of_the_launch_says_its_sizes_and_what_only_a_queue_knows_is_refused(results):
    told = results["started"]
    group, grid, private, lds, number = [16 | 2 << 16, 1], [3 * 16, 2 * 2, 1], 0, 64, 0
    assert (told["found"], told["words"]) == ([], [*group, *grid, private, lds, number])
    assert "s_load_b32 asks the host: the queue of the launch is not known" in told["queue"][0]


def test_registers_from_v512_on_are_named_by_an_opcode_or_a_constant_for_mode_and_by_nothing_else(results):
    told = results["upper"]
    for name in ("opcode", "constant"):
        assert (told[name], told[f"{name} same"]) == ([], True), name
    for name, opcode in (("zeros", "s_setreg_imm32_b32"), ("register", "s_setreg_b32"), ("read", "s_getreg_b32")):
        assert f"{opcode} where upper bits of registers are in MODE" in told[name][0]


def test_floats_of_the_lds_are_exchanged_where_they_are_equal_and_gfx1250_has_atomics_on_doubles(results):
    assert len(results["floats"]) == 11
    assert {name: told for name, told in results["floats"].items() if told is not True} == {}


@pytest.mark.parametrize(
    ("name", "count"), [("branches", 12), ("saturated", 13), ("rounded", 18), ("scalars", 7), ("pairs", 5)]
)
def test_an_instruction_has_numpy_s_bits_or_goes_where_its_condition_says(results, name, count):
    """Edits of handlers that no other test of single instructions sees: of clamps, of the last bit, of conditions."""
    assert len(results[name]) == count
    assert {one: told for one, told in results[name].items() if told is not True} == {}


def test_a_variable_of_the_code_object_is_written_and_read_and_nothing_beside_it(results):
    told = results["variables"]
    assert (told["variable"], told["variable read"]) == ([], 7)
    assert told["pointer"] == [
        "write+0x14: global_store_b32 writes 4 bytes from byte 2056 of the code on, which has 2064 (wave 0)"
    ]
