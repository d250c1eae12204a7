"""Kernels that cheat are red. Each runs in a real kernel's process, as in a job; ``cheats.py`` has them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conforming import conform

import mhc
from kernel_matrix.job import kernel_process
from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.end import end_of
from kernel_matrix.job.journal import Journal
from kernel_matrix.job.kernel_process import DeviceMissingError, KernelProcess, KernelProcessError
from kernel_matrix.kit import MisbehavedError
from kernel_matrix.kit import conform as made
from kernel_matrix.kit.checks import memory
from kernel_matrix.kit.checks.times import REPEATS

HERE = Path(__file__).parent
SUITE = HERE.parent / "mhc"
SIZES = {"streams": 4, "hidden": 40, "dtype": "fp32", "scale": 1.0, "form": "paper"}


@dataclass
class Frame:
    """One process of kernels that cheat, and cases for it."""

    folder: Path
    process: KernelProcess

    def conform(
        self, cheat: str, op: str = "expand", *, tokens: int = 7, name: str = "", **of_case: Any
    ) -> RunningCase:
        """Run the suite's test on one cheat, and return its case."""
        case = self.case(cheat, op, tokens=tokens, name=name, **of_case)
        conform(case)
        return case

    def case(self, cheat: str, op: str, *, tokens: int, name: str = "", **of_case: Any) -> RunningCase:
        job = {
            "backend": "cheat",
            "device": "cpu",
            "accuracy": {
                "factor": 4,
                "rounded": 1.5,
                "ulps": 4,
                "caps": {"forward": 1e-2, "backward": 1e-2},
                "growth": {"sums": 0.375, "others": 0.125},
            },
        }
        case = {
            "id": f"{cheat}/{name}",
            "name": name or f"{op}{tokens}",
            "op": op,
            "direction": "forward",
            "target": cheat,
            "axes": {**SIZES, "tokens": tokens},
            "action": "run",
            **of_case,
        }
        return RunningCase(job, case, Journal(self.folder / "journal.jsonl"), self.process)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a copy of the kernel package that has one backend more."""
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(Path(mhc.__file__).parent, folder / "mhc", ignore=shutil.ignore_patterns("__pycache__"))
    backend = folder / "mhc" / "backends" / "cheat"
    backend.mkdir()
    (backend / "__init__.py").write_text('"""A backend that cheats."""\n')
    shutil.copy(HERE / "cheats.py", backend / "operators.py")
    return folder


@pytest.fixture(scope="module")
def frame(package: Path) -> Iterator[Frame]:
    """Yield a process that all cheats share which leave it usable."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(package))
        patch.setattr(kernel_process, "_PATIENCE", 0.5)
        process = KernelProcess(SUITE, package / "log.txt")
        yield Frame(package, process)
        process.close()


@pytest.mark.parametrize("op", ["expand", "mhc_post", "sinkhorn"])
def test_the_honest_kernels_pass(frame: Frame, op: str):
    case = frame.conform("honest", op)
    assert case.facts["process"] == "own"
    assert case.metrics["elements"] == {"expand": 1120, "mhc_post": 1120, "sinkhorn": 112}[op]


# Of a kernel that reads its scratch: repeats differ already where other work wrote to that memory.
SCRATCH = "memory that nobody has written|on the same inputs gives other results: out"
CHEATS = [
    ("past_output", "expand", "wrote past an end of its output out"),
    ("before_output", "sinkhorn", "wrote past an end of its output matrix"),
    ("past_input", "expand", "wrote past an end of its input x"),
    ("past_scratch", "mhc_post", "wrote past an end of memory that it allocated: empty (64,)"),
    ("input_then_output", "mhc_post", "the kernel changed its input x"),
    ("output_then_input", "mhc_post", "the kernel changed its input x"),
    ("calls_reference", "expand", "a kernel may not import mhc.backends.reference"),
    ("calls_golden", "expand", "a kernel may not import mhc.backends.reference"),
    ("imports_reference", "expand", "a kernel may not import mhc.backends.reference"),
    ("reference_by_path", "mhc_post", "the kernel computes with PyTorch: add, bmm"),
    ("computes_with_torch", "mhc_post", "the kernel computes with PyTorch: add, bmm"),
    ("in_a_thread", "mhc_post", "the kernel computes with PyTorch: add, bmm"),
    ("in_a_thread_of_cpp", "mhc_post", "the kernel computes with PyTorch: bmm"),
    ("without_modes", "mhc_post", "the kernel computes with PyTorch: add, bmm"),
    ("after_the_checked_run", "mhc_post", "the kernel computes with PyTorch: add, bmm"),
    ("in_a_child", "mhc_post", "another process started or worked while the kernel ran"),
    ("in_a_child_that_stays", "mhc_post", "another process started or worked while the kernel ran"),
    ("in_a_child_that_nobody_waits_for", "mhc_post", "another process started or worked while the kernel ran"),
    ("sets_dtype", "expand", "the kernel changed the default dtype"),
    ("sets_threads", "expand", "the kernel changed the number of threads"),
    ("sets_grad_mode", "expand", "the kernel changed the grad mode"),
    ("sets_inference_mode", "expand", "the precision of fp32 products"),
    ("sets_folder", "expand", "the kernel changed the working directory"),
    ("seeds_torch", "expand", "the kernel changed PyTorch's random numbers"),
    ("seeds_numpy", "expand", "the kernel changed NumPy's random numbers"),
    ("seeds_python", "expand", "the kernel changed Python's random numbers"),
    ("flushes_subnormals", "expand", "the kernel changed how the CPU rounds and flushes"),
    ("sets_numpy_errors", "expand", "the kernel changed what NumPy does on errors"),
    ("leaves_a_child", "expand", "left 1 processes behind: "),
    ("right_once", "sinkhorn", "run 2 on the same inputs gives other results: matrix"),
    ("wrong_every_third", "mhc_post", "on the same inputs gives other results: out"),
    ("caches", "expand", "out: 960 numbers where the inputs of a row are NaN"),
    ("reads_scratch", "expand", SCRATCH),
    ("reads_c_scratch", "expand", f"{SCRATCH}|out: max_abs"),  # nobody fills C's memory: it may be far off at once
    ("replaces_storage", "expand", "1120 NaN and 0 Inf in 1120 elements"),
    ("resizes", "expand", "1120 NaN and 0 Inf in 1120 elements"),
    ("does_nothing", "expand", "1120 NaN and 0 Inf in 1120 elements"),
    ("ends_python", "expand", "SystemExit: 0"),
    ("interrupts", "expand", "KeyboardInterrupt"),
    ("skips", "expand", "Skipped: not today"),
]
# These end their process or leave it changed. They come last, so that few processes are started.
CHEATS_APART = [
    ("removes_the_refusal", "mhc_post", "the kernel computes with PyTorch: add, bmm"),
    ("patches_the_comparison", "mhc_post", "the kernel changed NumPy's functions (numpy.abs)"),
    ("patches_the_checks", "mhc_post", "out: max_abs"),
    ("ends_the_process", "expand", "the process ended with exit status 0 in stage launch"),
    ("sends_garbage", "expand", "the kernel's process sent what is no message"),
]


def red(frame: Frame, *arguments: Any, **options: Any) -> str:
    """Return the text of the error that a cheat ends with."""
    try:
        frame.conform(*arguments, **options)
    except (AssertionError, MisbehavedError, KernelProcessError) as error:
        return str(error)
    pytest.fail("the cheat passed")


# By day every second one.
@pytest.mark.parametrize(
    ("cheat", "op", "words"),
    [
        pytest.param(*one, marks=[pytest.mark.nightly] if number % 2 else [], id=one[0])
        for number, one in enumerate(CHEATS)
    ],
)
def test_a_cheat_is_red_and_the_next_case_of_its_process_is_not(frame: Frame, cheat: str, op: str, words: str):
    told = red(frame, cheat, op)
    assert any(one in told for one in words.split("|")), told
    wait_for_children(frame)
    frame.conform("honest", op)


def wait_for_children(frame: Frame) -> None:
    """Wait until no process below the kernel's works: on a busy machine a child may end late."""
    before: list[int] | None = None
    while (now := frame.process.work_below()) != before:
        before = now
        time.sleep(0.3)


def test_a_cheat_that_says_that_the_device_is_missing_is_red(frame: Frame):
    case = frame.case("says_no_device", "expand", tokens=7)
    with pytest.raises(DeviceMissingError) as raised:
        conform(case)
    end = end_of(case, raised.value, 0.0)
    assert end.outcome == "error"
    assert end.message == "the device of this case is here, and the test was skipped: no device today"


def test_a_leak_is_red(frame: Frame, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory, "_SPARE", 16 << 20)
    assert "MiB more after a few runs" in red(frame, "leaks")
    frame.conform("honest")


def test_a_state_that_a_failing_kernel_has_changed_is_set_back(frame: Frame):
    assert "too late" in red(frame, "spoils_and_fails")
    assert "the default dtype is torch.float32" in red(frame, "tells_dtype")


def test_a_stale_answer_is_red_even_if_nothing_else_finds_it(frame: Frame, monkeypatch: pytest.MonkeyPatch):
    """Without the operator's properties: the next case of the same shapes has other inputs."""
    for check in ("rows", "holds"):
        monkeypatch.setitem(made.ORDER, check, lambda _: None)
    frame.conform("caches", "mhc_post", name="first")
    assert "out: max_abs" in red(frame, "caches", "mhc_post", name="second")


def test_answers_that_a_cheat_keeps_for_the_race_are_red(frame: Frame):
    words = red(frame, "caches_until_timed", "mhc_post", timed=True)
    assert words.startswith("the results do not follow the inputs where the kernel runs again and again: out")


def test_answers_that_a_cheat_keeps_by_a_hash_of_their_inputs_save_no_time(frame: Frame):
    words = red(frame, "answers_by_hash", "mhc_post", timed=True)
    assert "s a run; the process that compares measures 0.00" in words


def test_an_honest_race_passes(frame: Frame):
    case = frame.conform("honest_race", "mhc_post", timed=True)
    assert case.metrics["time.run"] > 0
    assert (case.metrics["repeats"], case.metrics["repeats_differing"]) == (5 + REPEATS, 0)


def test_runs_that_give_other_bits_are_counted(frame: Frame):
    case = frame.case("right_at_first", "sinkhorn", tokens=7)  # no other test has run it in this process
    with pytest.raises(AssertionError, match="run 2 on the same inputs gives other results"):
        conform(case)
    assert (case.metrics["repeats"], case.metrics["repeats_differing"]) == (1, 1)


def test_times_that_a_cheat_forges_are_red(frame: Frame):
    words = red(frame, "forges_times", "mhc_post", tokens=500, timed=True)
    assert "s a run; the process that compares measures 0.00" in words


@pytest.mark.parametrize(("cheat", "op", "words"), CHEATS_APART, ids=[cheat for cheat, *_ in CHEATS_APART])
def test_a_cheat_that_spoils_its_process_is_red(frame: Frame, cheat: str, op: str, words: str):
    assert words in red(frame, cheat, op)


def test_more_than_twenty_cheats_were_tried():
    names = [cheat for cheat, *_ in (*CHEATS, *CHEATS_APART)]
    assert len(set(names)) == len(names) > 35
