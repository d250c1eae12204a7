"""Accuracy with one fixture in a suite's own tests: inside a job, and with plain pytest."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from common import ROOT
from judges import judge_each
from suites import Suite, verdicts

from kernel_matrix.job.arrays import NARROW, as_floats, as_numpy
from kernel_matrix.job.case import BlindComparisonError, OutOfBudgetError
from kernel_matrix.job.suite_compare import ChangedInputError, Comparer

SUITE = """
import numpy as np
import pytest

def double(x):
    return x * np.float32(2)

def drawn(matrix):
    return matrix.draw("x", (6, 33)).astype(np.float32)

def test_is_exact_enough(matrix):
    x = drawn(matrix)
    matrix.compare(np.exp(x), np.exp(x.astype(np.float64)), eager=np.exp(x), name="y")

def test_is_wrong(matrix):
    x = drawn(matrix)
    matrix.compare(double(x) + np.float32(0.001), 2.0 * x.astype(np.float64), eager=double(x), name="y")

def test_compares_two(matrix):
    x = drawn(matrix)
    matrix.compare(double(x), 2.0 * x.astype(np.float64), eager=[double(x), double(x)], name="y")
    matrix.compare(-x, -x.astype(np.float64), budget=1e-6, source="two roundings of fp32 at unit scale", name="dx")

def test_compares_and_fails_later(matrix):
    x = drawn(matrix)
    matrix.compare(double(x), 2.0 * x.astype(np.float64), eager=double(x), name="y")
    assert x.shape == (1, 1)

def test_says_no_budget(matrix):
    matrix.compare(np.ones(3, np.float32), np.ones(3))

def test_only_asserts(matrix):
    assert matrix.draw("x", (2,)).shape == (2,)
"""


def case_named(comparison, name):
    return next(v for key, v in verdicts(comparison).items() if key.endswith(f"/{name}"))


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    return Suite.made(tmp_path_factory.mktemp("suite"), {"tests/test_a.py": SUITE}).run()


@pytest.mark.slow
def test_a_test_that_compares_has_a_state_as_our_own_cases_have(comparison):
    assert {name.partition("/")[2]: (v.state, v.evidence) for name, v in verdicts(comparison).items()} == {
        "test_is_exact_enough": ("pass", "ran"),
        "test_is_wrong": ("fail", "ran"),
        "test_compares_two": ("pass", "ran"),
        "test_compares_and_fails_later": ("fail", "ran"),
        "test_says_no_budget": ("error", "planned"),
        "test_only_asserts": ("held", "held"),
    }


@pytest.mark.slow
def test_figures_canaries_and_samples_are_recorded(comparison):
    record = case_named(comparison, "test_compares_two").record
    assert record.metrics["elements"] == 2 * 6 * 33
    assert record.metrics["canary.injected"] == record.metrics["canary.caught"] >= 4
    assert {"y.max_abs", "y.rel_fro", "y.misrounded", "y.floor_rel_fro", "dx.declared_max_abs"} <= set(record.metrics)
    assert record.facts["budget.dx"] == "two roundings of fp32 at unit scale"
    assert set(record.samples) == {"y", "dx"}
    assert re.fullmatch("[0-9a-f]{16}", record.facts["inputs.sha256"])
    exact = case_named(comparison, "test_is_exact_enough").record
    assert exact.metrics["y.noise_ratio"] == 1.0
    assert exact.metrics["y.misrounded"] == exact.metrics["y.floor_misrounded"]


@pytest.mark.slow
def test_a_fail_says_which_figure_is_over_which_limit(comparison):
    reason = case_named(comparison, "test_is_wrong").reason
    assert re.search(r"y: max_abs 0\.001 is over \S+", reason)


WIDE = {
    "dx.declared_max_abs": 1.0,
    "dx.limit_max_abs": 1.0,
    "dx.max_abs": 0.5,
    "dx.rel_fro": 0.4,
    "dx.declared_rel_fro": 0.5,
    "dx.limit_rel_fro": 0.5,
}
EDITED = {
    "as it was": ({}, "pass"),
    "an error over its limit": ({"y.max_abs": 1.0}, "error"),
    "another limit": ({"y.limit_max_abs": 1.0}, "error"),
    "another budget": ({"dx.declared_max_abs": 1.0}, "error"),
    "no canaries": ({"canary.injected": 0.0, "canary.caught": 0.0}, "error"),
    "fewer elements": ({"elements": 1.0}, "error"),
    "a budget over the cap": (WIDE, "error"),
}


@pytest.mark.slow
def test_a_record_of_a_comparison_is_not_believed_without_its_figures(comparison):
    verdict = case_named(comparison, "test_compares_two")
    job = {name: value for name, value in verdict.record.job.items() if not name.startswith("canary")}  # of all cases
    record = replace(verdict.record, job=job)
    edited = {name: [replace(record, metrics={**record.metrics, **edit})] for name, (edit, _) in EDITED.items()}
    found = judge_each(verdict.case, {**edited, "no figures": [replace(record, metrics={})]})
    expected = {name: state for name, (_, state) in EDITED.items()}
    assert {name: verdict.state for name, verdict in found.items()} == {**expected, "no figures": "held"}


@pytest.mark.slow
def test_the_same_suite_runs_with_plain_pytest(tmp_path):
    (tmp_path / "test_a.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "kernel_matrix.job.fixture", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--rootdir=.", "."],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "3 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    assert "OutOfBudgetError: y: max_abs" in done.stdout
    table = done.stdout.partition("compared with a float64 golden")[2]
    failed = re.search(r"^failed  test_a\.py::test_is_wrong y: largest error 0\.001, limit", table, re.MULTILINE)
    passed = re.search(
        r"^passed  test_a\.py::\w+ y: largest error \S+, limit \S+, noise 1 .(, eager is .+)?$", table, re.MULTILINE
    )
    assert failed, table
    assert passed, table


def test_the_plugin_is_found_where_the_harness_is_installed():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    # Under the name of its module, so that pytest does not register it twice where a job names it too.
    assert project["entry-points"]["pytest11"] == {"kernel_matrix.job.fixture": "kernel_matrix.job.fixture"}


X = np.linspace(-2, 2, 64).astype(np.float32)
EXACT = np.exp(X.astype(np.float64))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "nothing says what the budget is"),
        ({"eager": np.exp(X).astype(np.float16)}, "eager has float16"),
        ({"budget": 1e-3}, "needs its source"),
        ({"budget": 1e-3, "source": "x" * 30}, "needs its source"),
        ({"budget": -1.0, "source": "a sentence that is long enough"}, "the budget is -1.0"),
        ({"budget": 1e-3, "relative": 1.0, "source": "a sentence that is long enough"}, "zeros would pass"),
        ({"eager": np.exp(X), "name": "a.b"}, "is no name of an output"),
        ({"eager": np.exp(X)[:3]}, "shape"),
    ],
)
def test_a_comparison_that_cannot_be_made_says_what_to_give(options, words):
    with pytest.raises(ValueError, match=words):
        Comparer("t", None).compare(np.exp(X), EXACT, **options)


def test_a_golden_that_is_not_float64_needs_a_declared_budget():
    with pytest.raises(ValueError, match="give it as float64"):
        Comparer("t", None).compare(np.exp(X), EXACT.astype(np.float32), eager=np.exp(X))
    source = "a reference in fp32, which is itself off by a rounding"
    Comparer("t", None).compare(np.exp(X), EXACT.astype(np.float32), budget=1e-5, source=source)


def test_a_name_is_used_once_in_a_test():
    comparer = Comparer("t", None)
    comparer.compare(np.exp(X), EXACT, eager=np.exp(X))
    with pytest.raises(ValueError, match="give each comparison another name"):
        comparer.compare(np.exp(X), EXACT, eager=np.exp(X))


def test_no_number_nan_and_an_empty_result_fail():
    for actual, golden in (
        (np.full(4, np.nan, np.float32), np.ones(4)),
        (np.empty(0, np.float32), np.empty(0)),
    ):
        with pytest.raises(OutOfBudgetError):
            Comparer("t", None).compare(actual, golden, budget=1e-3, source="a sentence that is long enough")


def test_a_comparison_that_finds_no_fault_is_an_error(monkeypatch):
    monkeypatch.setattr("kernel_matrix.job.canaries.Subject.passes", lambda _: True)
    comparer = Comparer("t", None)
    with pytest.raises(BlindComparisonError, match="does not find a fault"):
        comparer.compare(np.exp(X), EXACT, eager=np.exp(X))
    assert comparer.metrics["canary.caught"] == 0
    assert "a NaN in out" in comparer.facts["canary.missed"]


class Tensor:
    """Stand in for a tensor with a gradient on a GPU, of a type that NumPy does not have."""

    def __init__(self, values, dtype, place="gpu", grad=True):
        self.values, self.dtype, self.place, self.grad = values, dtype, place, grad

    def detach(self):
        return Tensor(self.values, self.dtype, self.place, grad=False)

    def cpu(self):
        return Tensor(self.values, self.dtype, "cpu", self.grad)

    def float(self):
        return Tensor(self.values.astype(np.float32), "framework.float32", self.place, self.grad)

    def __array__(self, dtype=None, copy=None):
        if self.grad or self.place != "cpu" or "bfloat16" in self.dtype:
            raise TypeError("not from here")
        return np.asarray(self.values, dtype)


class OnlyDlpack:
    """Stand in for an array that only gives itself by DLPack."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        raise TypeError("use DLPack")

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


def test_arrays_of_frameworks_become_numpy_s_with_the_same_dtype_and_values():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    for given in (values, Tensor(values, "framework.float32"), OnlyDlpack(values)):
        assert as_numpy(given).dtype == np.float32
        assert np.array_equal(as_numpy(given), values)
    narrow = as_numpy(Tensor(values.astype(ml_dtypes.bfloat16), "framework.bfloat16"))
    assert narrow.dtype == ml_dtypes.bfloat16
    assert np.array_equal(narrow.astype(np.float32), values)
    assert as_numpy(1.5).shape == ()


@pytest.mark.parametrize("given", [object(), "text", np.arange(3), np.ones(2, bool), [1, 2], np.ones(2, complex)])
def test_what_is_no_array_of_floating_point_numbers_is_said(given):
    with pytest.raises(TypeError, match=r"array|floating-point"):
        as_floats(given, "the result")


def test_inputs_are_the_same_on_every_machine_and_change_with_the_test():
    one, same, other = Comparer("t", None), Comparer("t", None), Comparer("u", None)
    assert np.array_equal(one.draw("x", (3, 4)), same.draw("x", (3, 4)))
    assert one.facts == same.facts
    assert not np.array_equal(one.draw("x", (3, 4)), other.draw("x", (3, 4)))
    assert one.facts != same.facts


def test_without_known_inputs_nothing_is_compared_with_other_machines():
    comparer = Comparer("t", None)
    comparer.compare(np.exp(X), EXACT, eager=np.exp(X))
    assert comparer.samples == {}
    assert "inputs.sha256" not in comparer.facts


def spoilt(rows: int = 64) -> tuple[Comparer, np.ndarray, np.ndarray]:
    """Return a comparer, a golden with one large value in its first row, and what plain code makes of it in fp32."""
    comparer = Comparer("suite/a", None)
    golden = comparer.draw("x", (rows, 64)) + 0.0
    golden[0, 0] = 1e6
    return comparer, golden, golden.astype(np.float32)


def test_an_input_that_changed_before_the_golden_was_made_is_an_error():
    comparer = Comparer("suite/a", None)
    x = comparer.draw("x", (6, 33))
    y = (x * 2).astype(np.float32)
    comparer.compare(y, x * 2, eager=y.copy(), name="right")
    x *= 0.5  # the kernel computes in its input
    with pytest.raises(ChangedInputError, match="an input changed after the test had named it"):
        comparer.compare((x * 2).astype(np.float32), x * 2, eager=(x * 2).astype(np.float32))
    comparer.inputs(x)  # the test says that it did this itself
    comparer.compare((x * 2).astype(np.float32), x * 2, eager=(x * 2).astype(np.float32))


def test_eager_and_golden_are_not_the_result_itself():
    comparer, golden, plain = spoilt()
    with pytest.raises(ValueError, match="eager is the result itself"):
        comparer.compare(plain, golden, eager=plain)
    with pytest.raises(ValueError, match="eager is the result itself"):
        comparer.compare(plain, golden, eager=[plain.copy(), plain.reshape(-1).reshape(plain.shape)])
    wide = golden.copy()
    with pytest.raises(ValueError, match="the golden is the result itself"):
        comparer.compare(wide, wide, eager=golden)


def test_eager_that_overflows_makes_no_budget():
    golden = np.full((4, 64), 7e4)
    golden[1:] = 1.0
    with np.errstate(over="ignore"):
        result = golden.astype(np.float16)
    with pytest.raises(ValueError, match="64 elements of eager are NaN or Inf, so no budget follows"):
        Comparer("suite/a", None).compare(result, golden, eager=result.copy())


def test_one_large_value_does_not_hide_rows_that_are_wrong():
    comparer, golden, plain = spoilt()
    comparer.compare(plain * np.float32(1 + 1e-7), golden, eager=plain, name="right")
    wrong = plain.copy()
    wrong[1:] *= np.float32(1.001)
    with pytest.raises(OutOfBudgetError, match=r"rel_fro 0.001 of the 63 rows of this size is over"):
        comparer.compare(wrong, golden, eager=plain, name="wrong")


@pytest.mark.parametrize("name", [name for name in NARROW if name != "bfloat16"])
def test_a_correctly_rounded_result_of_one_byte_passes_and_two_steps_off_do_not(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    golden = Comparer("suite/a", None).draw("x", (64, 64))
    rounded = golden.astype(np.float32).astype(dtype)
    half = float(ml_dtypes.finfo(dtype).eps) / 2
    declared = {"budget": half * 4, "relative": half, "source": "half a step of the dtype at the largest value"}
    for given in (declared, {"eager": rounded.copy()}):
        comparer = Comparer("suite/a", None)
        comparer.compare(rounded, golden, name="right", **given)
        largest = np.unravel_index(np.abs(golden).argmax(), golden.shape)
        wrong = rounded.copy()
        wrong[largest] = (golden[largest] * (1 + 6 * half)).astype(np.float32).astype(dtype)
        with pytest.raises(OutOfBudgetError):
            comparer.compare(wrong, golden, name="wrong", **given)


def test_inf_in_both_is_equal_and_elsewhere_a_fault():
    comparer, golden, _ = spoilt()
    golden[0, 0], golden[3, 5:] = 1.0, -np.inf  # as a mask of attention
    plain = golden.astype(np.float32)
    comparer.compare(plain, golden, eager=plain.copy(), name="right")
    for place, value in (((3, 5), np.inf), ((3, 6), 0.0), ((3, 7), np.nan)):
        wrong = plain.copy()
        wrong[place] = value
        with pytest.raises(OutOfBudgetError, match="1 of the golden's 59 Inf are not there"):
            comparer.compare(wrong, golden, eager=plain, name=f"wrong{place[1]}")
    wrong = plain.copy()
    wrong[0, 0] = -np.inf
    with pytest.raises(OutOfBudgetError, match="0 NaN and 1 Inf"):
        comparer.compare(wrong, golden, eager=plain, name="wrong")


def test_nan_in_the_golden_must_be_in_the_result():
    golden, eager = np.array([1.0, np.nan]), np.array([1.0, np.nan], np.float32)
    Comparer("suite/a", None).compare(eager.copy(), golden, eager=eager)
    with pytest.raises(OutOfBudgetError, match="1 of the golden's 1 NaN are not there"):
        Comparer("suite/a", None).compare(np.ones(2, np.float32), golden, eager=eager)
    with pytest.raises(ValueError, match="no element of the golden is finite"):
        Comparer("suite/a", None).compare(eager[1:].copy(), golden[1:], eager=eager[1:])


def test_a_golden_of_zeros_is_compared():
    zeros = np.zeros((4, 8), np.float32)
    Comparer("suite/a", None).compare(zeros, zeros.astype(np.float64), eager=zeros.copy())


def drawn_with(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def compared(result, golden, eager, **words):
    Comparer("suite/a", None).compare(result, golden, eager=eager, **words)


def test_a_golden_that_only_looks_like_float64_is_refused_and_that_of_an_exact_operator_is_not():
    x = drawn_with((64, 33))
    compared(2 * x, 2 * x.astype(np.float64), 2 * x)
    steps = np.exp(x)
    with pytest.raises(ValueError, match="every element of the golden is a number of float32"):
        compared(np.nextafter(steps, np.float32(9)), steps.astype(np.float64), steps)
    with pytest.raises(ValueError, match="every element of the golden is a number of float32"):
        compared(steps, np.nextafter(steps, np.float32(9)).astype(np.float64), steps.copy())
    quantized = np.rint(x * 16) / 16
    compared(quantized, x.astype(np.float64), quantized.copy(), source="int8 has 16 steps to one here")
    whole = np.rint(10 * x)
    compared(whole + np.float32(1e-6), whole.astype(np.float64), whole)


def test_an_error_all_on_one_side_is_a_fault_inside_the_budget():
    x = drawn_with((64, 256)).astype(np.float64)
    scale = np.abs(x).max() / 127
    rounded, cut = (np.rint(x / scale) * scale).astype(np.float32), (np.trunc(x / scale) * scale).astype(np.float32)
    compared(rounded, x, rounded.copy(), source="the scale of int8: a step is a 127th of the largest value")
    with pytest.raises(OutOfBudgetError, match="errors lie nearer to zero than the golden"):
        compared(cut, x, rounded, source="the scale of int8: a step is a 127th of the largest value")
    with pytest.raises(OutOfBudgetError, match="errors lie further from zero"):
        compared(
            (np.sign(x) * np.ceil(np.abs(x) / scale) * scale).astype(np.float32), x, rounded, source="the scale of int8"
        )


def test_more_than_one_rounding_to_a_narrow_dtype_is_a_fault():
    x = drawn_with((64, 256), np.float64)
    golden = np.exp(x)
    once = golden.astype(np.float32).astype(ml_dtypes.bfloat16)
    twice = (np.exp(x / 2).astype(ml_dtypes.bfloat16).astype(np.float32) ** 2).astype(ml_dtypes.bfloat16)
    compared(once, golden, once.copy())
    with pytest.raises(OutOfBudgetError, match="misrounded"):
        compared(twice, golden, once)


def test_a_unit_beyond_the_golden_is_refused():
    x = drawn_with((8, 33))
    with pytest.raises(ValueError, match="give no larger one"):
        compared(np.exp(x), np.exp(x.astype(np.float64)), np.exp(x), unit=1e6)


def test_plain_code_that_is_far_off_needs_a_reason():
    x = drawn_with((64, 33))
    golden = x.astype(np.float64) / 3
    eager = (golden * (1 + 1e-3 * drawn_with((64, 33), seed=1))).astype(np.float32)
    with pytest.raises(ValueError, match="rounding errors off: the budget follows from its error"):
        compared(golden.astype(np.float32), golden, eager)
    with pytest.raises(ValueError, match="eager is the result bit by bit, and is"):
        compared(eager, golden, eager.copy())
    compared(golden.astype(np.float32), golden, eager, source="plain code computes in half precision here")


def test_rows_that_must_be_zero_are_zero():
    x = drawn_with((64, 33))
    x[::8] = 0
    golden = np.sin(x.astype(np.float64))
    stale = np.sin(x)
    compared(np.sin(x), golden, np.sin(x))
    stale[8] = 1e-6
    with pytest.raises(OutOfBudgetError, match="1 rows that must be zero hold up to 1e-06"):
        compared(stale, golden, np.sin(x))
