"""A suite's own comparisons are asked which faults they see, and its tests end as they did before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from common import ROOT
from suites import Suite

from kernel_matrix.job.suite_canaries import faults
from kernel_matrix.job.suite_canaries.asking import FACT, Asking, OneAtATime, words_of
from kernel_matrix.job.suite_canaries.summing import in_words, kinds, summed

HEAD = """
import functools, warnings
import numpy as np, pytest
from numpy.testing import assert_allclose
import helper

x = np.random.default_rng(0).normal(size=(64, 128)).astype(np.float32)
y = x.astype(np.float64) * (1 + 1e-7)
"""
TESTS = {
    "bound_before": "def test_it(): assert_allclose(x, y, rtol=1e-5)",
    "loose": "def test_it(): assert np.allclose(x, y, atol=1e-2)",
    "by_name": "def test_it(): assert np.allclose(b=y, a=x, atol=1e-2)",
    "partial": "loose = functools.partial(assert_allclose, rtol=0.1)\ndef test_it(): loose(x, y)",
    "in_a_class": "class T: check = staticmethod(np.allclose)\ndef test_it(): assert T.check(x, y, atol=1e-2)",
    "approx": "def test_it(): assert x[:2] == pytest.approx(y[:2].astype(np.float32), rel=1e-3)",
    "approx_of_lists": "def test_it(): assert x[0].tolist() == pytest.approx(y[0].tolist(), rel=1e-3)",
    "exact": "def test_it(): np.testing.assert_array_equal(np.arange(20), np.arange(20))",
    "decimals": "def test_it(): np.testing.assert_almost_equal(x, y, decimal=3)",
    "of_a_subclass": "class S(np.ndarray): pass\ndef test_it(): assert_allclose(x.view(S), y, rtol=1e-5)",
    "with_nan": "def test_it():\n    z = x.copy(); z[3] = np.nan\n    assert_allclose(z, z.astype(float), rtol=1e-5)",
    "large": "def test_it():\n    z = np.ones((300, 4000), np.float32) * x[0, 0]\n    z += np.arange(4000)\n"
    "    assert_allclose(z, z.astype(float), rtol=1e-5)",
    "in_a_helper": "def test_it(): helper.close(x, y)",
}
FAILS = """
import warnings
def test_raises():
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_allclose(x, x + 1)
def test_answers_no(): assert not np.allclose(x, x + 1)
def test_fails(): assert_allclose(x, x + 1)
def test_other_things():
    np.testing.assert_array_equal(["a"], ["a"]); np.testing.assert_equal(3, 3)
def test_warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error"); assert_allclose(x, y, rtol=1e-5)
def test_numbers_raise():
    with np.errstate(all="raise"): assert_allclose(x, y, rtol=1e-5)
def test_chance_is_as_it_was():
    np.random.seed(0); a = np.random.rand(); np.random.seed(0)
    assert_allclose(x, y, rtol=1e-5); assert a == np.random.rand()
def test_results_are_as_they_were():
    a = x.copy(); assert_allclose(a, y, rtol=1e-5); assert (a == x).all()
def test_by_hand(): assert np.abs(x - y).max() < 1e-2
"""


def written(folder: Path) -> Path:
    (folder / "helper.py").write_text(
        "import numpy as np\ndef close(a, b): np.testing.assert_allclose(a, b, atol=1e-2)\n"
    )
    (folder / "conftest.py").write_text("from numpy.testing import assert_allclose\n")
    for name, text in TESTS.items():
        (folder / f"test_{name}.py").write_text(f"{HEAD}\n{text}\n")
    (folder / "test_fails.py").write_text(f"{HEAD}\n{FAILS}\n")
    return folder


def pytest_in(folder: Path, *options: str) -> str:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "kernel_matrix.job.fixture",
        "-p",
        "no:cacheprovider",
        "--tb=short",
    ]
    done = subprocess.run(
        [*command, *options, "."], cwd=folder, text=True, capture_output=True, env={"PYTHONPATH": str(ROOT / "src")}
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    return pytest_in(written(tmp_path_factory.mktemp("asked")), "--kernel-matrix-canaries")


@pytest.mark.parametrize("name", TESTS)
def test_a_comparison_is_asked_however_it_is_called(printed, name):
    file = "helper.py:2" if name == "in_a_helper" else f"test_{name}.py:"
    lines = [line for line in printed.splitlines() if line.startswith(file) and "faults" in line]
    assert len(lines) == 1, printed[-6000:]
    lets_through = "it lets through" in lines[0]
    assert lets_through == (
        name in ("loose", "by_name", "partial", "in_a_class", "decimals", "in_a_helper") or "approx" in name
    )


def test_the_line_of_a_helper_names_the_test_that_calls_it(printed):
    assert "helper.py:2, called at test_in_a_helper.py:" in printed


def test_tests_end_as_they_do_without_it(printed, tmp_path):
    without = pytest_in(written(tmp_path))
    assert "known faults" not in without
    assert "1 failed, 21 passed" in without
    assert "1 failed, 21 passed" in printed
    assert failure(printed) == failure(without)


def failure(text: str) -> str:
    return text.partition("test_fails.py:")[2].partition("=====")[0]


def test_what_is_no_comparison_of_arrays_is_not_counted(printed):
    assert "test_by_hand" not in printed
    named = {
        line.partition(" ")[0] for line in printed.splitlines() if line.startswith("test_fails.py:") and "sees" in line
    }
    source = (HEAD + "\n" + FAILS).splitlines()
    asked = {source[int(one.rpartition(":")[2]) - 1].strip() for one in named}
    assert not any("assert_equal" in line or "x + 1" in line for line in asked), asked


def test_processes_of_xdist_send_what_they_found(tmp_path):
    assert "helper.py:2, called at" in pytest_in(written(tmp_path), "--kernel-matrix-canaries", "-n", "2")


def test_a_job_keeps_what_its_comparisons_see(tmp_path):
    files = {
        "tests/test_a.py": f"{HEAD.replace('import helper', '')}\ndef test_it(): assert np.allclose(x, y, atol=1e-2)\n"
    }
    suite = Suite.made(tmp_path, files)
    suite.run()
    facts = [record.facts for record in suite.results().records if record.outcome == "pass"]
    lines = summed([facts[0][FACT]])
    assert [line.at for line in lines] == ["tests/test_a.py:10"]
    assert kinds(lines) == (4, 7)
    assert "lets through one more rounding, to bf16, one more rounding, to TF32, every element" in in_words(lines[0])


@pytest.fixture
def asking():
    asking = Asking(Path(__file__).parent)
    asking.begin(__file__)
    yield asking
    OneAtATime.asking = None


def close(tolerance):
    return lambda one, other: bool(np.abs(one.astype(np.float64) - other).max() <= tolerance)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_a_fault_that_the_dtype_hides_is_none(asking, dtype):
    x = np.linspace(1, 2, 64).reshape(8, 8).astype(dtype)
    asking.ask("close", close(0.0), x, x.astype(np.float64), asserts=True)
    (line,) = words_of(asking.facts()[FACT])["lines"]
    assert all(passed == 0 for _, passed in line["faults"].values())
    assert ("one more rounding, to TF32" in line["faults"]) == (dtype != np.float16)


def test_numbers_that_were_rounded_to_a_narrow_dtype_are_taken_for_what_they_are(asking):
    x = faults.rounded(np.linspace(1, 7.9, 64).reshape(8, 8), 7).astype(np.float32)
    asking.ask("close", close(0.01), x, x.astype(np.float64), asserts=True)
    (line,) = words_of(asking.facts()[FACT])["lines"]
    assert not any("rounding" in fault for fault in line["faults"])
    assert line["budget"] == pytest.approx(4 * 2**-6, rel=0.1)


def test_noise_as_large_as_a_fault_hides_it(asking):
    x = np.linspace(1, 2, 64).reshape(8, 8).astype(np.float32)
    asking.ask("close", close(0.5), x, x + 0.1, asserts=True)
    (line,) = words_of(asking.facts()[FACT])["lines"]
    assert "one element off by 1 % of the largest" not in line["faults"]


def test_it_says_how_far_one_element_may_be_off(asking):
    x = np.linspace(1, 2, 64).reshape(8, 8)
    asking.ask("close", close(0.01), x, x.copy(), asserts=True)
    (line,) = words_of(asking.facts()[FACT])["lines"]
    assert line["allows"] == 0.01


@pytest.mark.parametrize("odd", [np.array(["a"]), np.array([None]), np.zeros((0, 4)), np.ma.array([1.0], mask=[1])])
def test_what_is_no_array_of_numbers_is_left_alone(asking, odd):
    asking.ask("close", lambda *_: True, odd, odd.copy(), asserts=True)
    assert asking.facts() == {}


def test_it_takes_a_tenth_of_the_time(asking):
    x = np.linspace(1, 2, 64).reshape(8, 8)
    asking._all_used = 5.0
    asking.ask("close", close(0.01), x, x.copy(), asserts=True)
    assert words_of(asking.facts()[FACT]) == {"lines": [], "no time": 1}


@pytest.mark.parametrize("bits", [7, 10, 23])
def test_rounding_goes_to_even_in_the_middle(bits):
    step = 2.0**-bits
    assert faults.rounded(np.array([1 + step / 2, 1 + 1.5 * step, -1 - 0.4 * step, 0.0]), bits).tolist() == [
        *(1.0, 1 + 2 * step, -1.0, 0.0)
    ]


def test_a_failure_shows_the_test_and_nothing_of_the_harness(tmp_path):
    test = "def test_it(matrix): matrix.compare(x + 1, y, eager=x.copy())\n"
    (tmp_path / "test_it.py").write_text(f"{HEAD.replace('import helper', '')}\n{test}")
    printed = pytest_in(tmp_path)
    assert "OutOfBudgetError" in printed, printed
    assert "suite_compare.py" not in printed
