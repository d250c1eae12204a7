"""Kernels that a program launches run on emulated GPUs, and are compared with a float64 golden."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from common import ROOT, harness, records_in
from interpreters import kept_interpreter

from kernel_matrix.base.errors import UserError
from kernel_matrix.config.load import load
from kernel_matrix.config.plan import Job
from kernel_matrix.job.accuracy import correctly_rounded
from kernel_matrix.run.environments import venv
from kernel_matrix.run.executors import Request
from kernel_matrix.tools.launches import emulated
from kernel_matrix.tools.launches.inside.recorder.triton.emulated import numbers
from kernel_matrix.tools.launches.invocation import Invocation
from kernel_matrix.tools.launches.numbers import Change

PROGRAM = ROOT / "tests" / "tools" / "launched" / "launched_emulated.py"
TARGETS = ("gfx942", "gfx1100")
EXTREMES = ("extremes", "o"), ("atomic_extremes", "o")


def launched(build, targets, *words):
    """Run the command on the small program; what was compiled is kept for the next time."""
    (ROOT / "build" / "envs").mkdir(parents=True, exist_ok=True)
    request = Request(ROOT, ROOT / "build", load(ROOT / "matrix.yaml"), Job("rocm", "triton-3.7", ()), None, print)
    python = venv.prepare(request).python
    kept = ROOT / "build" / "cache" / "emulated"
    kept.mkdir(parents=True, exist_ok=True)
    (build / "cache").symlink_to(kept)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in kept_interpreter(ptx="sm_90" in targets).items():
            patch.setenv(name, value)
        patch.setenv("PYTHONPATH", str(ROOT / "src"))  # the session of nox adds another NumPy than the program's
        words = ("--emulate", ",".join(targets), "--", str(python), str(PROGRAM), *words)
        run = harness("launches", "--build", str(build), *words)
    return SimpleNamespace(
        status=run.returncode,
        output=run.stdout + run.stderr,
        build=build,
        records={
            (record.case.split("/")[3].removesuffix(".launch"), record.case.split("/")[1]): record
            for record in records_in(build / "launches" / "results")
        },
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Run all kernels on two targets of AMD."""
    return launched(tmp_path_factory.mktemp("emulated"), TARGETS)


@pytest.mark.environments
@pytest.mark.nightly
def test_kernels_for_nvidia_run_as_ptx_and_what_is_wrong_with_them_is_found(tmp_path):
    done = launched(tmp_path, ["sm_90"], "few")
    for kernel, elements in (("softmax", 700), ("product", 64 * 64)):
        record = done.records[kernel, "sm_90"]
        assert (record.outcome, record.action) == ("pass", "emulate"), record.message
        assert record.metrics["o.elements"] == elements
        assert record.metrics["canary.caught"] == record.metrics["canary.injected"] > 0
        assert record.metrics["artifact.registers"] > 0
    wrong = done.records["without_mask", "sm_90"]
    assert (wrong.outcome, wrong.stage) == ("error", "launch")
    assert re.search(r"ld\.global\S+ reads 4 bytes that begin 0 bytes behind the end of x \(400 bytes\)", wrong.message)
    assert "emulated on sm_90: 3 launches ran, 2 were compared, 1 have findings" in done.output


@pytest.mark.environments
@pytest.mark.nightly
@pytest.mark.parametrize("target", ["gfx1100", "gfx1201"])
def test_a_target_of_each_other_family_may_come_first(target, tmp_path):
    done = launched(tmp_path, [target], "few")
    assert {kernel: one.outcome for (kernel, _), one in done.records.items()} == {
        "softmax": "pass",
        "product": "pass",
        "without_mask": "error",
    }, done.output


@pytest.mark.environments
@pytest.mark.parametrize("target", TARGETS)
def test_numbers_of_the_machine_code_are_inside_the_budget_and_canaries_are_found(done, target):
    for kernel, output in (
        ("softmax", "o"),
        ("scaled", "o"),
        ("counted", "counts"),
        ("product", "o"),
        ("running", "o"),
        *EXTREMES,
    ):
        record = done.records[kernel, target]
        assert (record.outcome, record.action) == ("pass", "emulate"), record.message
        assert record.metrics[f"{output}.max_abs"] <= record.metrics[f"{output}.limit_max_abs"]
        assert record.metrics["canary.caught"] == record.metrics["canary.injected"] > 0
        assert record.metrics["artifact.registers"] > 0
    assert done.records["softmax", target].metrics["o.elements"] == 700
    assert done.records["softmax", target].metrics["o.max_abs"] > 0
    assert done.records["running", target].metrics["o.elements"] == 128, "the first nine are zeros"


@pytest.mark.environments
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kernel", ["bent", "drawn", "described"])
def test_functions_of_libdevice_and_of_the_language_and_descriptors_are_computed(done, target, kernel):
    record = done.records[kernel, target]
    assert (record.outcome, record.action) == ("pass", "emulate"), record.message


@pytest.mark.environments
def test_a_number_that_one_target_computes_otherwise_fails_there(done):
    assert done.records["differs", "gfx942"].outcome == "pass"
    wrong = done.records["differs", "gfx1100"]
    assert (wrong.outcome, wrong.action) == ("fail", "emulate")
    assert re.match(r"o: max_abs 1e-05 is over \d", wrong.message)
    assert re.search(r"^fail: .*\n    differs on gfx1100$", done.output, re.MULTILINE)


@pytest.mark.environments
@pytest.mark.parametrize("target", TARGETS)
def test_findings_of_the_emulator_are_errors_with_kernel_instruction_and_line(done, target):
    record = done.records["without_mask", target]
    line = next(n for n, text in enumerate(PROGRAM.read_text().splitlines(), 1) if "tl.load(x + i), i < n)" in text)
    assert (record.outcome, record.stage) == ("error", "launch")
    assert re.match(
        rf"without_mask\+0x\w+ \(launched_emulated\.py:{line}\): buffer_load_\w+ reads \d+ bytes that begin 0 bytes "
        r"behind the end of x \(400 bytes\)",
        record.message,
    )
    assert record.message in done.output


@pytest.mark.environments
@pytest.mark.parametrize("target", TARGETS)
def test_an_opcode_that_the_emulator_does_not_know_is_named(done, target):
    record = done.records["halting", target]
    assert (record.outcome, record.stage) == ("error", "launch")
    assert re.match(rf"UnknownInstructionError: {target}: .*s_sethalt", record.message)


@pytest.mark.environments
def test_what_the_interpreter_lacks_is_computed_by_the_machine_code_and_not_called_compared(done):
    for target in TARGETS:
        record = done.records["assembly", target]
        assert (record.outcome, record.action) == ("pass", "compile")
        assert "inline_asm not supported" in record.facts["not compared"]
    assert re.search(r"not compared: assembly: .*inline_asm not supported", done.output)


@pytest.mark.environments
def test_the_page_says_emulated_and_the_program_went_on_with_right_numbers(done):
    assert done.status == 1
    assert "did not end well" not in done.output, done.output
    assert "emulated on gfx942: 13 launches ran, 11 were compared, 1 have findings" in done.output
    assert "not compared: 2 launches that ran on emulated targets; so this is no success" in done.output
    folder = str(done.build / "launches")
    again = harness("report", "--matrix", f"{folder}/matrix.yaml", "--build", folder)
    assert "Of 28 cells 22 ran in an emulator, 2 compiled. Red:" in again.stdout


def changes(where, before, after):
    return {"x float32": Change(np.array(where), np.array(before), np.array(after))}


def bits(*values):
    return np.array(values, np.float32).view(np.uint32)


def compared(actual, eager=(1.0, 2.0)):
    golden = changes([0, 1], [0.0, 0.0], [1.0, 2.0])
    return emulated._numbers("k", actual, changes([0, 1], bits(0, 0), bits(*eager)), golden, golden)


def test_elements_that_are_not_written_or_written_elsewhere_are_outside_of_the_budget():
    assert not compared(changes([0, 1], bits(0, 0), bits(1, 2))).faults
    [fault] = compared(changes([0], bits(0), bits(1))).faults
    assert fault.startswith("x: max_abs 2 is over")
    [fault] = compared(changes([0, 1, 5], bits(0, 0, 7), bits(1, 2, 9))).faults
    assert fault.startswith("x: max_abs 2 is over")


def test_an_integer_is_one_that_the_reference_gives():
    def change(*after):
        return {"n int32": Change(np.arange(2), np.zeros(2, np.uint32), np.array(after, np.uint32))}

    assert not emulated._numbers("k", change(3, 4), change(3, 5), change(3, 4), change(3, 5)).faults
    [fault] = emulated._numbers("k", change(3, 6), change(3, 5), change(3, 4), change(3, 5)).faults
    assert fault == "n: 1 of 2 integers differ from the reference's"


def test_what_is_smaller_than_its_rounding_errors_is_not_compared():
    tiny = changes([0, 1], [0.0, 0.0], [1e-12, 0.0])
    with pytest.raises(emulated._NothingToCompareError, match="zeros would pass"):
        emulated._numbers(
            "k", changes([0], bits(0), bits(1e-9)), changes([0, 1], bits(0, 0), bits(1e-8, 1e-8)), tiny, tiny
        )


def test_numbers_are_rounded_once_to_bf16():
    values = np.concatenate([np.random.default_rng(0).normal(size=1000), [1 + 2**-9 + 2**-40, np.inf, -np.inf, 3e38]])
    dtype = SimpleNamespace(name="bf16")
    exact = correctly_rounded(values, np.dtype(ml_dtypes.bfloat16)).astype(np.float64)
    assert (numbers.rounded(values, dtype) == exact).all()
    assert np.isnan(numbers.rounded(np.array([np.nan]), dtype)).all()


def test_what_the_emulator_needs_is_said_in_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(emulated, "_DECODER", "no-such-decoder==1")
    with pytest.raises(
        UserError, match=rf"lacks no-such-decoder==1, .*uv pip install --python {sys.executable} no-such-decoder==1$"
    ):
        emulated.emulator_for(Invocation(sys.executable, (), ("calls.py",)), TARGETS)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"no C\+\+ compiler is on PATH .* sudo apt-get install g\+\+$"):
        emulated.emulator_for(Invocation(sys.executable, (), ("calls.py",)), TARGETS)
    monkeypatch.setattr(emulated, "find_spec", {}.get)
    with pytest.raises(UserError, match=r"pip install .*/src/gpu_emulators$"):
        emulated.emulator_for(Invocation(sys.executable, (), ("calls.py",)), ["sm_90"])
    done = harness("launches", "--emulate", "gfx943", "--", "python", "-c", "")
    assert done.returncode == 2
    assert "--emulate gfx943: there is no such target of the emulator. Did you mean 'gfx942'?" in done.stderr
