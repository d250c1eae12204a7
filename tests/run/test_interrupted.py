"""A run that is ended early: what had begun is an error, what had not is missing; a run that goes on has the rest."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from common import ROOT, harness
from suites import MATRIX, Suite
from together import by_day

from kernel_matrix import judging, pipeline
from kernel_matrix.vendors.machine import detect

# Two tests hold; the third waits, but not where the whole is run again.
TESTS = """
import os, pathlib, signal, time
import pytest

@pytest.mark.parametrize("n", range(6))
def test_n(n):
    if n == 2 and not pathlib.Path({first!r}).exists():
        {begins}
        time.sleep(600)
"""
BEGINS = "pathlib.Path({first!r}).touch()"
TWICE = [signal.SIGINT, signal.SIGINT]
ENDED = "the run was ended before this case"


def made(folder: Path, begins: str = BEGINS, limits: str = "") -> tuple[Suite, Path]:
    """Return the suite, and the file that its third test writes when it has begun."""
    first = folder / "first"
    text = TESTS.format(first=str(first), begins=begins.format(first=str(first)))
    matrix = MATRIX.replace("[any]", f"[{detect().devices[0].targets[-1]}]").replace("job: 600", limits or "job: 600")
    return Suite.made(folder / "thing", {"tests/test_a.py": text}, matrix), first


def command(suite: Suite, name: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "kernel_matrix", name, "--matrix", str(suite.root / "matrix.yaml"), *options]


def ended(suite: Suite, first: Path, numbers: Sequence[int], *options: str) -> str:
    """Run until the third test has begun, send the signals, and return what was printed."""
    words = command(suite, "run", "--executor", "current", *options)
    run = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    give_up = time.monotonic() + 120
    while numbers and not first.exists():
        assert time.monotonic() < give_up
        assert run.poll() is None
        time.sleep(0.05)
    for place, number in enumerate(numbers):
        time.sleep(2.2 if place else 0)  # sooner they say the same
        if run.poll() is None:
            os.kill(run.pid, number)
    return run.communicate(timeout=120)[0]


def reported(suite: Suite) -> tuple[str, Counter[str], dict[str, int], int]:
    """Return the sentence of the report, the reasons of what is missing, the cases by state, and the exit status."""
    done = harness(*command(suite, "report")[3:])
    project = pipeline.load(suite.root / "matrix.yaml")
    with judging.judged(project, pipeline.plan(project, "full"), [project.results]) as judged:
        reasons = Counter(reason.partition(":")[0] for reason in judged.reasons("missing").elements())
        return done.stdout, reasons, dict(judged.counts), done.returncode


def goes_on(suite: Suite) -> dict[str, int]:
    """Return the states of the cases after a run that goes on."""
    run = command(suite, "run", "--executor", "current", "--resume")
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "done 6/6 (6 held)\n" in done.stdout) == (0, True), done.stdout
    return reported(suite)[2]


ENDS = [TWICE, [signal.SIGINT], [signal.SIGTERM], [signal.SIGHUP], [signal.SIGTERM, signal.SIGINT]]


@pytest.mark.slow
@pytest.mark.parametrize("numbers", by_day(1, ENDS))
def test_what_had_not_begun_is_missing_and_is_counted_as_not_begun(tmp_path, numbers):
    suite, first = made(tmp_path)
    said = ended(suite, first, numbers)
    assert "here.plain: done 3/6 (2 held, 1 error), 3 not begun\n" in said
    sentence, reasons, states, status = reported(suite)
    assert (states, reasons, status) == ({"error": 1, "missing": 3, "held": 2}, {ENDED: 3}, 1)
    assert sentence.startswith("Of 1 cell none has all of its results. Red: 1 error.")
    assert goes_on(suite) == {"held": 6}


@pytest.mark.slow
def test_the_time_limit_of_the_job_leaves_what_had_not_begun_missing(tmp_path):
    suite, first = made(tmp_path, limits="job: 8")
    assert "here.plain: done 3/6 (2 held, 1 error), 3 not begun\n" in ended(suite, first, [])
    assert reported(suite)[2] == {"error": 1, "missing": 3, "held": 2}


@pytest.mark.slow
def test_a_run_that_was_killed_leaves_all_missing_and_one_that_goes_on_has_the_whole(tmp_path):
    suite, first = made(tmp_path)
    ended(suite, first, [signal.SIGKILL])
    _, reasons, states, status = reported(suite)
    assert (states, reasons, status) == ({"missing": 1}, {"no result came": 1}, 1)
    assert goes_on(suite) == {"held": 6}


@pytest.mark.slow
def test_a_shard_that_is_ended_has_its_own_part_missing(tmp_path):
    suite, first = made(tmp_path, begins="pass")
    (suite.root / "tests" / "test_a.py").write_text(
        "import pathlib, time\nimport pytest\n\n@pytest.mark.parametrize('n', range(6))\n"
        f"def test_n(n):\n    pathlib.Path({str(first)!r}).touch()\n    time.sleep(600)\n"
    )
    said = ended(suite, first, [signal.SIGTERM], "--shard", "1/2")
    (done, total, left) = map(int, re.findall(r"done (\d+)/(\d+) \(1 error\), (\d+) not begun", said)[0])
    assert (done, total < 6, left) == (1, True, total - 1)


KILLS = ["os.kill(os.getpid(), signal.SIGKILL)", "os.kill(os.getpid(), signal.SIGTERM)", "os._exit(0)"]
KILLS += ["pytest.exit('I end it')", "os.kill(os.getpid(), signal.SIGINT)"]


@pytest.mark.slow
@pytest.mark.parametrize("kills", by_day(1, KILLS))
def test_a_test_that_ends_its_process_is_an_error_and_leaves_nothing_missing(tmp_path, kills):
    suite, first = made(tmp_path, begins=kills)
    assert re.search(r"done 6/6 \((5 held, 1 error|1 error, 5 held)\)\n", ended(suite, first, []))
    assert reported(suite)[2] == {"error": 1, "held": 5}


@pytest.mark.slow
def test_a_test_that_ends_the_harness_is_an_error_itself(tmp_path):
    suite, first = made(tmp_path, begins="os.kill(os.getppid(), signal.SIGTERM)")
    said = ended(suite, first, [])
    assert "1 error" in said
    sentence, _, states, status = reported(suite)
    assert (states["error"], status) == (1, 1), sentence
