"""A run in which no case has a result is no success: it ends with 1, and says so where the check is read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from common import END, Doubles, harness
from suites import MATRIX, Suite
from together import by_day

from kernel_matrix.vendors.machine import detect

NOTHING = "No case has a result, so nothing was tested: this is no success."
PLATFORMS = """
  gpu: { title: a GPU, device: nvidia, runner: [self-hosted, linux], targets: [sm_90], toolchains: [good] }
  other:
    { title: another, device: amd, runner: [self-hosted], targets: [gfx942], machines: [gfx942], toolchains: [good] }
ci: { hosted: ubuntu-24.04, events: { pull_request: { tier: quick }, label: { tier: quick } } }
ops:
"""


@pytest.fixture
def matrix(here: Doubles) -> str:
    """Return a matrix.yaml with two platforms whose devices are not here, and nothing is compiled for them."""
    here.edit("\nops:\n", PLATFORMS)
    return str(here.root / "matrix.yaml")


def summary(matrix: str) -> str:
    return (Path(matrix).parent / "build" / "site" / "summary.md").read_text()


@pytest.mark.parametrize("command", ["run", "matrix"])
@pytest.mark.parametrize("asked", [["gpu"], ["gpu", "other"]])
def test_platforms_whose_devices_are_not_here_are_no_success(matrix, command, asked):
    words = [word for name in asked for word in ("--platform", name)]
    done = harness(command, "--matrix", matrix, "--executor", "current", *words)
    assert done.returncode == 1, done.stdout + done.stderr
    assert NOTHING in done.stdout
    assert "None is red" not in done.stdout


@pytest.mark.parametrize("command", ["run", "matrix"])
def test_one_result_is_enough_and_the_rest_is_unavailable(matrix, command):
    words = ("--platform", "gpu", "--platform", "here", "--toolchain", "good")
    done = harness(command, "--matrix", matrix, "--executor", "current", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert NOTHING not in done.stdout


def test_what_is_red_is_red_and_nothing_more(matrix):
    done = harness("run", "--matrix", matrix, "--executor", "current", "--platform", "here", "--toolchain", "raises")
    assert done.returncode == 1
    assert NOTHING not in done.stdout


def test_a_suite_that_skips_all_of_its_tests_is_no_success(tmp_path):
    skipped = "import pytest\n\n@pytest.mark.skip(reason='needs a GPU')\ndef test_a():\n    pass\n"
    target = detect().devices[0].targets[-1]
    suite = Suite.made(tmp_path, {"tests/test_gpu.py": skipped}, MATRIX.replace("[any]", f"[{target}]"))
    done = harness("run", "--matrix", str(suite.root / "matrix.yaml"), "--executor", "current")
    assert (done.returncode, NOTHING in done.stdout) == (1, True), done.stdout + done.stderr


def test_what_is_left_out_as_a_whole_is_no_success(here, matrix):
    here.edit(
        "\nops:\n", f"\nexclusions: [{{ where: {{ toolchain: good }}, reason: it is too slow here, {END} }}]\nops:\n"
    )
    done = harness("run", "--matrix", matrix, "--executor", "current", "--platform", "here", "--toolchain", "good")
    assert (done.returncode, NOTHING in done.stdout) == (1, True), done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["--labels", '["matrix: gfx942"]'],
        ["--labels", '["matrix: gfx942"]', "--hosted-only"],
        ["--labels", '["matrix: sm_90 good"]'],
    ],
)
def test_a_label_asks_for_one_target_and_no_machine_came(matrix, tmp_path, words):
    plan, results = str(tmp_path / "plan.json"), tmp_path / "results"
    results.mkdir()
    planned = harness("ci", "plan", "--matrix", matrix, "--event", "pull_request", *words, "--write", plan)
    assert planned.returncode == 0, planned.stderr
    rows = [row["id"] for row in json.loads(Path(plan).read_text())["rows"] if row["labels"]]
    (tmp_path / "jobs.json").write_text(json.dumps([{"row": row, "status": "queued"} for row in rows]))
    statuses = str(tmp_path / "jobs.json")
    done = harness("report", "--matrix", matrix, "--plan", plan, "--statuses", statuses, "--annotate", str(results))
    assert done.returncode == 1, done.stdout + done.stderr
    [warning] = [line for line in done.stdout.splitlines() if line.startswith("::warning")]
    assert NOTHING.replace(":", "%3A") in warning or NOTHING in warning
    assert NOTHING in summary(matrix)
    assert "None is red" not in done.stdout


def test_a_report_of_some_results_has_no_warning(matrix):
    cases = Path(matrix).parent / "cases.txt"
    words = ("--executor", "current", "--platform", "here", "--toolchain", "good", "--write-cases", str(cases))
    assert harness("run", "--matrix", matrix, *words).returncode == 0
    done = harness("report", "--matrix", matrix, "--cases", str(cases), "--annotate")
    assert (done.returncode, "::warning" in done.stdout) == (0, False), done.stdout
    assert "None is red." in summary(matrix)


ENDS = {  # the tests of one file, whether one of them ran here, and how the report begins
    "raises": ("def test_a(): raise ValueError('x')\n", True, "Of 1 cell none ended well. Red: 1 error."),
    "asserts": (
        "def test_a(): assert 1 == 2\n",
        True,
        "Of 1 cell 1 ran under the suite's own assertions. Red: 1 fail.",
    ),
    "no_import": ("raise ValueError('x')\n", False, "Of 1 cell none ended well. Red: 1 error."),
    "exits": ("import os\ndef test_a(): os._exit(3)\n", True, "Of 1 cell none ended well. Red: 1 error."),
    "skips": (
        "import pytest\ndef test_a(): pytest.skip('later')\n",
        False,
        f"Of 1 cell 1 had no device or a skipped test. {NOTHING}",
    ),
    "holds": ("def test_a(): pass\n", True, "Of 1 cell 1 ran under the suite's own assertions. None is red."),
}


@pytest.mark.parametrize("name", by_day(2, ENDS))
def test_what_ran_and_did_not_end_well_ran_here_all_the_same(tmp_path, name):
    text, ran, begins = ENDS[name]
    target = detect().devices[0].targets[-1]
    suite = Suite.made(tmp_path, {"tests/test_a.py": text}, MATRIX.replace("[any]", f"[{target}]"))
    words = ("--matrix", str(suite.root / "matrix.yaml"))
    done = harness("run", *words, "--executor", "current")
    assert ("Nothing ran on hardware" in done.stdout) != ran, done.stdout
    assert harness("report", *words).stdout.startswith(f"{begins}\n")
    assert (
        re.search(r"\b1 (cells|cases|lanes|files)\b", (suite.root / "build" / "site" / "summary.md").read_text())
        is None
    )
