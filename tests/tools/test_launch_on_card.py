"""Recorded launches run again on a GPU. Here is a double of NVIDIA's driver, behind which the emulator of PTX is."""

from __future__ import annotations

import re
import subprocess
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from common import ROOT, harness, records_in
from interpreters import kept_interpreter
from loops import at_least

from kernel_matrix.config.load import load
from kernel_matrix.config.plan import Job
from kernel_matrix.run.environments import venv
from kernel_matrix.run.executors import Request
from kernel_matrix.tools.launches import configurations
from kernel_matrix.tools.launches.inside.recorder.triton.card.ptx_order import UnknownFormError, reordered
from kernel_matrix.tools.launches.numbers import Change, ulps

DOUBLE = ROOT / "tests" / "tools" / "cards"
PROGRAM = ROOT / "tests" / "tools" / "launched" / "launched_card.py"
PTX = "\tmov.u32 \t%r1, %ctaid.x;\n\tmov.u32 \t%r2, %tid.x;\n\t@%p1 mov.u32 \t%r3, %ctaid.y;\n"


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Run the command on kernels with and without faults."""
    folder = tmp_path_factory.mktemp("card")
    (ROOT / "build" / "envs").mkdir(parents=True, exist_ok=True)
    request = Request(ROOT, ROOT / "build", load(ROOT / "matrix.yaml"), Job("rocm", "triton-3.7", ()), None, print)
    python = venv.prepare(request).python
    words = ["gcc", "-shared", "-fPIC", "-w", str(DOUBLE / "driver.c"), "-o", str(folder / "libcuda.so.1")]
    subprocess.run(words, check=True)
    run = f"env PYTHONPATH={ROOT / 'src'} {python} {DOUBLE / 'emulate.py'} {folder / 'build' / 'cache'}"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in kept_interpreter(ptx=True).items():
            patch.setenv(name, value)
        for name, value in {"LD_LIBRARY_PATH": folder, "CUDA_DOUBLE": folder, "CUDA_DOUBLE_RUN": run}.items():
            patch.setenv(name, str(value))
        patch.setenv("PYTHONPATH", str(ROOT / "src"))
        options = ("--on", "cuda:0", "--emulate", "sm_90", "--order", "--configs", "all", "--jobs", "3")
        ended = harness("launches", "--build", str(folder / "build"), *options, "--", str(python), str(PROGRAM))
    output = ended.stdout + ended.stderr
    said = dict(re.findall(r"^  (\w+(?: configuration \d)?) \([^)]*grid \w+\): (.*)$", output, re.MULTILINE))
    records = records_in(folder / "build" / "launches" / "results")
    return SimpleNamespace(status=ended.returncode, output=output, said=said, records=records, build=folder / "build")


@pytest.mark.environments
@pytest.mark.nightly
def test_each_fault_is_found_by_the_check_that_claims_it_and_sound_kernels_are_not_red(done):
    for kernel, meaning in {
        "racing": "blocks depend on each other: in ",
        "overwritten": "in reverse order the result is another",
        "past_the_end": "it reads outside of its tensors",
        "without_mask": "in no argument change the result: it lacks a mask",
        "written_past": "it writes outside of o",
        "wrong_config configuration 2": "has another result than 2 of the 3 configurations",
    }.items():
        assert meaning in done.said[kernel], (kernel, done.output)
    sound = ("sound", "adding", "of_padded_rows", "wrong_config configuration 1", "product", "doubled configuration 2")
    for kernel in at_least(9, (*sound, *(f"partial_sums configuration {number}" for number in (1, 2, 3)))):
        assert done.said[kernel].startswith("the same in all runs; "), (kernel, done.said[kernel])
        assert "RED" not in done.said[kernel]
        assert re.search(r"\d registers; .* µs ", done.said[kernel])


@pytest.mark.environments
@pytest.mark.nightly
def test_the_smallest_grid_that_shows_a_race_is_named_and_sums_in_another_order_are_no_race(done):
    assert "(a grid of 2x1x1 shows it)" in done.said["overwritten"]
    assert "bits vary with the order in which floats are added in memory" in done.said["adding"]


@pytest.mark.environments
@pytest.mark.nightly
def test_what_ran_on_a_gpu_has_run_and_the_emulator_stands_beside_it(done):
    assert done.status == 1
    sound = next(one for one in done.records if "/sound.launch/" in one.case)
    assert (sound.outcome, sound.action) == ("pass", "run")
    assert "the same in all runs" in sound.facts["on the GPU"]
    page = (done.build / "launches" / "launches.md").read_text()
    assert "| product | 4096 | 0 | 0 | 0 | wgmma.mma_async" in page
    assert "ran on Double of an H100" in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--order"], "--order: name the GPU on which the blocks run in other orders: --on cuda:0."),
        (["--on", "xpu:0"], "--on xpu:0: write a GPU as PyTorch names it, such as cuda:0"),
        (["--on", "cuda:7"], "--on cuda:7: there is no such GPU: "),
        (["--on", "cpu"], "--on cpu: write a GPU as PyTorch names it"),
    ],
)
def test_a_gpu_that_is_not_there_is_one_sentence(words, said, tmp_path):
    run = harness("launches", "--build", str(tmp_path), *words, "--", "python", "-c", "")
    assert run.returncode == 2
    assert said in run.stderr


@pytest.mark.parametrize("size", [1, 2, 3, 7, 60, 4096, 65_537, 2**22])
def test_every_order_gives_each_block_the_work_of_another_one(size):
    for order in ("reversed", "1", "2"):
        text = reordered(PTX, (size, 1, 1), order)
        assert text.count("%ctaid") == 2
        blocks = np.arange(size, dtype=np.uint64)
        if found := re.search(r"mad\.lo\.u32 %r1, %r1, (\d+), (\d+);\s*rem\.u32 %r1, %r1, (\d+);", text):
            factor, step, modulus = (np.uint64(one) for one in found.groups())
            assert int(factor) * (size - 1) + int(step) < 2**32
            blocks = (blocks * factor + step) % modulus
        elif found := re.search(r"sub\.s32 %r1, (\d+), %r1;", text):
            blocks = np.uint64(found[1]) - blocks
        assert np.array_equal(np.sort(blocks), np.arange(size))
        assert size < 60 or not np.array_equal(blocks, np.arange(size))


def test_a_guarded_read_of_the_block_stays_guarded_and_other_forms_are_refused():
    assert "\t@%p1 sub.s32 %r3, 4, %r3;" in reordered(PTX, (3, 5, 1), "reversed")
    for text in ("cvt.u64.u32 %rd1, %ctaid.x;", "mov.u32 %r1, %ctaid.x;\nmov.u32 %r1, %clusterid.x;"):
        with pytest.raises(UnknownFormError):
            reordered(text, (3, 1, 1), "reversed")


def golden(*values, where=None):
    places = np.arange(len(values)) if where is None else np.array(where)
    return {"o float32": Change(places, np.zeros(len(values)), np.array(values, np.float64))}


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        ([golden(1.0, 2), golden(1.0 + 1e-12, 2), golden(1.5, 2)], {2: "1 of 2 elements"}),
        ([golden(1.0, 9), golden(1.0, 2), golden(1.0, 2)], {0: "1 of 2 elements"}),
        ([golden(1.0, 2), golden(1.0)], {1: "1 elements are not written"}),
        ([golden(1.0), golden(1.0, 2)], {1: "1 more elements are written"}),
        ([golden(1.0, 2, 3, 4), golden(3.0, 7)], {}),
        ([golden(np.nan, 2), golden(np.nan, 2), golden(1.0, 2)], {2: "1 of 2 elements"}),
        ([golden(1.0), golden(1.0)], {}),
        ([golden(1.0)], {}),
    ],
)
def test_a_configuration_is_odd_if_it_computes_another_result_than_most(call, wrong):
    found = dict(configurations.odd_of({str(number): one for number, one in enumerate(call)}))
    assert {int(name): text.rpartition(": ")[2] for name, text in found.items()} == wrong


def test_a_distance_in_units_in_the_last_place_crosses_zero_and_knows_nan():
    bits = lambda *values: np.array(values, np.float32).view(np.uint32)  # noqa: E731
    tiny = np.float32(1e-45)
    assert ulps("float32", bits(1, -0.0, tiny, 3), bits(np.nextafter(np.float32(1), 2), 0.0, -tiny, 3)).tolist() == [
        1,
        0,
        2,
        0,
    ]
    assert ulps("float32", bits(np.nan, np.nan), bits(np.nan, 1)).tolist() == [0, np.inf]
    half = np.array([1, 2], ml_dtypes.bfloat16).view(np.uint16)
    assert ulps("bfloat16", half, half + np.uint16(3)).tolist() == [3, 3]
    assert ulps("int32", np.array([1], np.uint32), np.array([4], np.uint32)).tolist() == [3]
