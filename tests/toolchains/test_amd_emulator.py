"""The emulator of AMD's GPUs: kernels that Triton compiles give right numbers, and what is wrong with them is found."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from common import python_of
from covering import with_the_night
from in_environment import ROOT, results_of
from interpreters import kept_interpreter
from loops import at_least

from gpu_emulators.amd import decoding
from gpu_emulators.common import library
from gpu_emulators.common.errors import EmulatorError

pytestmark = pytest.mark.environments

PROGRAMS = Path(__file__).with_name("gfx_programs.py")
SOURCE = ROOT / "src" / "gpu_emulators"
# One target of each family of encodings by day; the others at night.
TARGETS = (
    *("gfx942", "gfx1100", "gfx1201"),
    *(pytest.param(target, marks=pytest.mark.nightly) for target in ("gfx90a", "gfx950", "gfx1030", "gfx1250")),
)
OLDER, *NEIGHBOURS = (pytest.param(target, marks=pytest.mark.nightly) for target in ("gfx908", "gfx1150", "gfx1200"))
OF_BOTH = ("gfx942", "gfx1100")
NEWEST = pytest.param("gfx1250", marks=pytest.mark.nightly)
WITH_SMALL_NUMBERS = ("gfx942", "gfx950", "gfx1201", NEWEST)


@pytest.fixture(scope="module")
def python() -> Path:
    """Return the interpreter with Triton and the decoder."""
    return python_of("triton-3.7", "rocm")


@pytest.fixture(scope="module")
def variables(tmp_path_factory) -> dict[str, str]:
    """Return where compiled code is kept."""
    return {**kept_interpreter(), "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton"))}


@pytest.fixture(scope="module")
def results(request, python, variables) -> dict[tuple[str, str], dict]:
    """Run all programs, by day most of them on few targets, and return the result of each."""
    words = () if with_the_night(request) else ("by-day",)
    return results_of(python, PROGRAMS, *words, **variables)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("program", ["sums", "integers"])
def test_kernels_of_sums_and_integers_give_the_bits_of_pytorch(results, program, target):
    assert results[program, target] == {"same": True}


@pytest.mark.parametrize("target", TARGETS)
def test_quotients_of_numbers_of_all_sizes_are_rounded_correctly(results, target):
    assert results["quotients", target] == {"wrong": []}


@pytest.mark.parametrize("target", TARGETS)
def test_lanes_and_waves_that_write_the_same_place_with_the_same_last_value_do_not_race(results, target):
    assert results["repeated", target]["error"] < 1e-6


@pytest.mark.parametrize("target", [*TARGETS, OLDER, *NEIGHBOURS])
def test_a_softmax_with_reductions_over_four_waves_is_right(results, target):
    assert results["softmaxes", target]["error"] < 2e-7


@pytest.mark.parametrize("target", [*TARGETS, OLDER])
def test_products_of_matrices_are_right_in_the_layouts_of_mfma_and_wmma(results, target):
    errors = results["products", target]["errors"]
    assert len(errors) == 3
    assert results["products_of_bytes", target] == {"error": 0}
    for dtype, error in errors.items():
        xf32 = target == "gfx942" and dtype == "float32"  # factors of 10 bits
        assert error < (2e-3 if xf32 else 1e-6), dtype


@pytest.mark.parametrize("target", WITH_SMALL_NUMBERS)
def test_products_of_numbers_of_eight_bits_are_right(results, target):
    errors = results["products_of_small_numbers", target]["errors"]
    assert len(errors) == (2 if target == "gfx1201" else 3)
    assert max(errors.values()) < 1e-7


@pytest.mark.parametrize("target", WITH_SMALL_NUMBERS)
def test_numbers_become_the_nearest_of_eight_bits_and_the_largest_where_they_are_too_large(results, target):
    wrong = results["conversions", target]
    assert len(wrong) == 2
    assert not any(wrong.values())


@pytest.mark.parametrize("target", OF_BOTH)
def test_a_kernel_that_takes_subnormal_numbers_as_zero_still_divides_correctly(results, target):
    assert results["flushed", target] == {"sum": True, "ratio": True}


def test_parts_of_the_mode_register_are_set_and_others_are_refused(results):
    refused = "s_setreg_imm32_b32 sets MODE to {}, which the emulator does not know (wave 0, 2 times)"
    told = {
        "half of it": "0xfc",
        "a scalar": "0xf5",
        "up": "0x3f800001",
        "exceptions": refused.format("0x13f0"),
        "no subnormal numbers of fp16": refused.format("0x330"),
    }
    assert results["modes", "gfx942"] == told
    assert results["modes", "gfx1100"] == told | {"rounding": "0xfa", "subnormal numbers": "0xd0"}


@pytest.mark.parametrize("target", TARGETS)
def test_atomics_of_several_workgroups_add_up(results, target):
    assert results["atomics", target] == {"counts": [96] * 8}


@pytest.mark.parametrize("target", OF_BOTH)
def test_a_read_behind_a_tensor_is_found_with_its_tensor_and_its_line(results, target):
    found = results["outside", target]["found"]
    assert [kind for kind, _ in found] == ["read outside"] * 2
    line = next(n for n, text in enumerate(PROGRAMS.read_text().splitlines(), 1) if "tl.load(x + i) +" in text)
    for (_, text), name in zip(found, "xy", strict=True):
        assert re.match(
            rf"add_without_mask\+0x\w+ \(gfx_programs\.py:{line}\): buffer_load_\w+ reads 16 bytes that ", text
        )
        assert f"begin 0 bytes behind the end of {name} (4000 bytes)" in text


def test_an_opcode_that_is_not_known_ends_the_launch_with_its_name(results):
    assert results["unknown", "gfx950"]["error"].startswith(
        "UnknownInstructionError: gfx950: by_hand has v_cvt_sr_fp8_f32"
    )


@pytest.mark.parametrize("target", OF_BOTH)
def test_waits_barriers_and_loads_that_are_left_out_are_found(results, target):
    counts = results["mutants", target]
    assert counts["barrier"]["race"] >= 0.8 * counts["barrier"]["mutants"] > 0
    assert counts["wait"]["mutants"] > 20
    assert counts["wait"]["no wait"] >= 0.7 * counts["wait"]["mutants"]
    # A load is also what a wait is for: the register that it fills is defined by an earlier one, or nobody uses it.
    assert counts["load"]["undefined"] > 0
    assert counts["load"]["nothing"] < 0.5 * counts["load"]["mutants"]


def test_each_half_of_a_register_is_waited_for_and_known_on_its_own(results):
    found = results["halves", "gfx1100"]
    assert {name: kinds for name, kinds in found.items() if isinstance(kinds, list)} == {
        "both, the high one not awaited": ["no wait"],
        "both, none awaited": ["no wait"],
        "low": ["undefined"],
        "high": ["undefined"],
        "low v_lshrrev_b32 $0, 16, v200": ["undefined"],
        "low v_add_nc_u32 $0, 1, v200": ["undefined"],
        "low v_pack_b32_f16 $0, v200, v200 op_sel:[0,1,0]": ["undefined"],
    }
    assert [found[name] for name in ("both", "both, the low one awaited")] == ["same"] * 2
    assert len(found) == 15


def test_offsets_of_private_memory_have_a_sign_on_rdna_4_alone(results):
    assert results["private", "gfx1201"] == {"found": [], "same": True}
    assert results["private", "gfx1100"] == {"found": ["read outside", "write outside"], "same": False}


def test_a_wave_of_rdna_4_finds_its_number_in_the_registers_of_the_trap_handler(results):
    assert results["waves", "gfx1201"] == {"numbers": [0] * 32 + [1] * 32}


def test_memory_may_be_protected_and_an_argument_has_its_size(results):
    assert set(results["protected", "gfx942"]["found"]) == {"write protected"}
    assert results["protected", "gfx942"]["wrong"] == "add: the argument at 24 has 4 bytes, not 2"


def test_an_offset_of_a_scalar_load_may_be_in_a_register(results):
    assert results["scalar", "gfx942"] == {"loaded": [10]}


def test_instructions_that_are_one_wait_state_too_near_are_found_and_no_others(results):
    """The compiler must wait, as the hardware does not; all other programs here have no such finding."""
    found = results["hazards", "gfx942"]
    assert found["enough"] == []
    told = [re.fullmatch(r"(\w+) uses (\w+) (\d+) wait states after (\w+) at 0x\w+, and (\d+) are needed", text)
            for text in found["less"]]  # fmt: skip
    assert [(one[4], one[1], one[2], int(one[3]), int(one[5])) for one in told if one] == [
        ("v_mov_b64", "v_readfirstlane_b32", "v201", 0, 1),
        ("v_readfirstlane_b32", "global_load_dword", "s40", 4, 5),
        ("v_readfirstlane_b32", "v_readlane_b32", "s40", 3, 4),
        ("v_cmp_eq_u32", "v_div_fmas_f32", "vcc", 3, 4),
        ("v_cmp_eq_u32", "v_cndmask_b32", "vcc", 1, 2),
        ("v_mov_b32", "v_mov_b32", "v200", 1, 2),
        ("v_exp_f32", "v_add_f32", "v200", 0, 1),
        ("v_mov_b32", "v_mov_b32", "v200", 0, 1),
        ("v_cmpx_eq_u32", "v_readfirstlane_b32", "exec", 3, 4),
        ("v_mfma_f32_16x16x4_f32", "v_mov_b32", "v203", 9, 10),
        ("v_mfma_f32_16x16x4_f32", "v_mfma_f32_16x16x4_f32", "v202", 9, 10),
        ("v_mfma_f32_16x16x4_f32", "buffer_load_dword", "v202", 9, 10),
        ("v_mfma_f32_16x16x4_f32", "v_mfma_f32_16x16x4_f32", "v204", 7, 8),
        ("s_setreg_imm32_b32", "s_getreg_b32", "MODE", 1, 2),
        ("s_setreg_imm32_b32", "s_setreg_imm32_b32", "MODE", 1, 2),
    ]


def test_vector_instructions_of_rdna_that_are_one_too_near_are_found_and_no_others(results):
    uses = "{} uses {} {} vector instructions after {}, and {} are needed".format
    expected = [
        uses("v_permlane16_b32", "exec", 0, "v_cmpx_eq_u32", 1),
        uses("v_wmma_f32_16x16x16_f16", "v208", 0, "v_wmma_f32_16x16x16_f16", 1),
        uses("v_add_f32", "v200", 5, "v_exp_f32", 6),
        uses("v_fmac_f32", "v200", 5, "v_rcp_f32", 6),
        uses("v_dual_mov_b32 v_dual_mov_b32", "v200", 5, "v_log_f32", 6),
    ]
    for target, count in (("gfx1100", 5), ("gfx1151", 2)):
        told = results["hazards", target]
        assert told["enough"] == []
        assert [re.sub(r" at 0x\w+", "", one) for one in told["less"]] == expected[:count]


def test_bytes_that_are_other_instructions_on_older_targets_have_the_names_of_the_target(results):
    """The names are the disassembler's in LLVM; products of matrices are written as on gfx942."""
    assert results["names", ""] == {
        "VOP2 4": {"gfx906": "v_mul_legacy_f32", "gfx90a": "v_fmac_f64"},
        "VOP2 0x16": {"gfx908": "v_mac_f32", "gfx950": "v_dot2c_f32_bf16"},
        "VOP2 0x17": {"gfx90a": "v_madmk_f32", "gfx942": "v_fmamk_f32"},
        "VOP3 0x1c1": {"gfx906": "v_mad_f32"},
        "MFMA 0x67": {"gfx90a": "v_mfma_f32_16x16x16_bf16"},
        "MFMA 0x6d": {"gfx908": "v_mfma_f32_16x16x8_bf16", "gfx90a": "v_mfma_f32_16x16x8_bf16"},
        "MUBUF 0x3e": {"gfx906": "buffer_inv"},
    }


def test_the_private_tables_of_the_decoder_are_those_that_the_emulator_was_written_for(results):
    """A change means: read what the encodings have become, then decoding.py, and run the other tests."""
    assert results["digests", ""] == {
        "cdna": "d26334f49b338044",
        "rdna3": "11db13a71dd98f3a",
        "rdna4": "225b2538f174c176",
    }


def test_a_target_whose_encodings_the_decoder_lacks_ends_with_those_that_there_are():
    with pytest.raises(EmulatorError, match=r"gfx1300.*there are gfx906, gfx908, "):
        decoding.family_of("gfx1300")


def test_another_version_of_the_decoder_is_refused(python, variables):
    script = (
        "import importlib.metadata as m; m.version = lambda name: '0.14.1'\n"
        "from gpu_emulators.amd import decoding\n"
        "decoding.decode(bytes(4), 'gfx942')"
    )
    environment = {**os.environ, **variables, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([python, "-c", script], env=environment, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith(
        "EmulatorError: tinygrad 0.14.1 is installed, and the emulator reads the tables of 0.14.0 alone"
    )


def test_the_command_line_shows_and_runs_a_code_object(python, variables, tmp_path):
    script = f"""
import numpy as np, triton, sys
sys.path.insert(0, {str(PROGRAMS.parent)!r})
import gfx_programs
from triton.compiler import ASTSource
from triton.backends.compiler import GPUTarget
names = dict(x="*fp32", y="*fp32", o="*fp32", n="i32", B="constexpr")
made = triton.compile(ASTSource(gfx_programs.add, names, dict(B=256)), target=GPUTarget("hip", "gfx1100", 32))
open("add.hsaco", "wb").write(made.asm["hsaco"])
for name in "xyo":
    np.save(name, np.arange(100, dtype=np.float32))
"""
    environment = {**os.environ, **variables, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([python, "-c", script], env=environment, cwd=tmp_path, check=True)

    def said(*words: str) -> tuple[int, str]:
        command = [python, "-m", "gpu_emulators", "amd", *words]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    status, text = said("show", "add.hsaco", "--target", "gfx1100")
    assert status == 0
    assert re.search(r"^add: \d+ instructions, \d+ opcodes, waves of 32 lanes,$", text, re.MULTILINE)
    assert "not known: nothing" in text
    launch = ("run", "add.hsaco", "--target", "gfx1100", "--grid", "1", "--threads", "128", "--arguments")
    status, text = said(*launch, "x.npy", "y.npy", "o.npy", "i32:100", "null", "null")
    assert (status, text.split("; ")[1]) == (0, "0 findings\n")
    check = "import numpy as np; assert (np.load('o.npy') == 2 * np.load('x.npy')).all()"
    subprocess.run([python, "-c", check], cwd=tmp_path, check=True)
    status, text = said(*launch, "x.npy", "y.npy", "o.npy", "i32:101", "null", "null")
    assert (status, text.count("outside") + text.count("behind the end of")) == (1, 3)
    assert said(*launch, "x.npy") == (2, "gpu-emulators: add wants the argument at 8, which is not given\n")


def test_the_emulators_share_one_package_and_import_neither_each_other_nor_the_harness():
    foreign = {"amd": "nvidia", "nvidia": "amd", "common": "amd|nvidia"}
    for folder, others in foreign.items():
        paths = at_least(3, (SOURCE / folder).rglob("*.py"))
        imports = [line for path in paths for line in path.read_text().splitlines() if "import" in line]
        assert imports
        assert not [line for line in imports if re.search(rf"\b(kernel_matrix|mhc|gpu_emulators\.({others}))\b", line)]
    paths = at_least(300, (ROOT / "src" / "kernel_matrix").rglob("*.py"))
    harness = [path for path in paths if "inside" not in path.parts]  # what runs in a user's program
    assert harness
    assert not [
        path for path in harness if re.search(r"^\s*(from|import) gpu_emulators", path.read_text(), re.MULTILINE)
    ]


def test_no_file_of_the_emulator_is_long_and_no_function_has_more_than_forty_lines():
    for path in at_least(10, SOURCE.glob("*/native/*")):
        assert len(path.read_text().splitlines()) <= 400, path.name
        start = None
        for number, line in enumerate(path.read_text().splitlines()):
            if re.match(r"^(template|static|HANDLER|bool|void|u64|i32|u32|float|Read).*\{$", line):
                start = number
            elif line == "}" and start is not None:
                assert number - start < 40, f"{path.name}:{start + 1}"
                start = None


def test_the_interpreter_is_compiled_anew_where_the_kept_one_is_cut_short_or_none_can_be_kept(tmp_path, monkeypatch):
    compiler, cache = tmp_path / "g++", tmp_path / "cache"
    sources = [SOURCE / "amd" / "native", library.SHARED]
    compiler.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] || echo x >> {tmp_path}/runs\nfor last; do :; done\necho so > "$last"\n'
    )
    compiler.chmod(0o755)
    monkeypatch.chdir(tmp_path)  # the compiler writes a file --version
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv(library.CACHE, str(cache))
    for _ in range(2):
        file = library._file(tmp_path, sources)
    assert (file.parent, (tmp_path / "runs").read_text()) == (cache, "x\n")
    os.truncate(file, 1)
    assert library._file(tmp_path, sources).read_text() == "so\n"
    assert library._file(tmp_path, sources) == file, "the new one is kept in the old one's place"
    monkeypatch.setenv(library.CACHE, str(compiler / "below a file"))
    assert library._file(tmp_path, sources).read_text() == "so\n"
