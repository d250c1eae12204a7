"""These faults are red although each number is inside its budget; and what is right is green."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from common import ROOT

from kernel_matrix.job.accuracy import correctly_rounded
from kernel_matrix.job.suite_compare import Comparer

BF16, FP16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)
WHY = "a sentence that says where it comes from"


def drawn(shape=(64, 64), seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def compared(result, golden, eager=None, **words):
    Comparer("suite/a", None).compare(result, golden, eager=eager, **words)


def changed(values, place, value):
    values = values.copy()
    values[place] = value
    return values


def plain(values):
    return np.exp(values)


def softmax(x):
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True, dtype=x.dtype)


X, WIDE = drawn(), drawn(dtype=np.float64)
THIRD = drawn().astype(np.float64) / 3
ROUNDED = THIRD.astype(np.float32)
PADDED = changed(drawn((64, 33)), np.s_[:, ::8], 0)
OFF = (THIRD * (1 + 1e-3 * drawn(seed=2))).astype(np.float32)  # by a thousandth
STEP = np.abs(WIDE).max() / 127
BIG_ENDIAN = ROUNDED.astype(">f4")
COLUMN = changed(THIRD / 10, np.s_[:, 0], 1e6)
FAULTS = {
    "a golden in fp32, for bf16": (
        lambda: compared(softmax(X).astype(BF16), softmax(X).astype(np.float64), softmax(X.astype(BF16))),
        "a number of float32",
    ),
    "a golden in fp32 but for one row": (
        lambda: compared(
            np.nextafter(plain(X), np.float32(9)),
            changed(plain(X).astype(np.float64), 0, plain(X[0].astype(np.float64))),
            plain(X),
        ),
        "a number of float32",
    ),
    "a golden in fp32 of few elements": (
        lambda: compared(np.nextafter(plain(X[0]), np.float32(9)), plain(X[0]).astype(np.float64), plain(X[0])),
        "a number of float32",
    ),
    "a golden of a path in fp16": (
        lambda: compared(plain(X), plain(X.astype(FP16)).astype(np.float64), plain(X)),
        "rounding errors off",
    ),
    "a golden in fp32, for float64": (
        lambda: compared(plain(WIDE), plain(WIDE.astype(np.float32)).astype(np.float64), plain(WIDE)),
        "a number of float32",
    ),
    "a golden made of the result": (
        lambda: compared(plain(X), plain(X).astype(np.float64), np.nextafter(plain(X), np.float32(9))),
        "a number of float32",
    ),
    "float64 that was computed in fp32": (
        lambda: compared(plain(WIDE.astype(np.float32)).astype(np.float64), plain(WIDE), plain(WIDE / 2) ** 2),
        "it was computed in fp32 or less",
    ),
    "rounding down": (
        lambda: compared(
            (np.floor(WIDE / STEP) * STEP).astype(np.float32),
            WIDE,
            (np.rint(WIDE / STEP) * STEP).astype(np.float32),
            source=WHY,
        ),
        "errors lie lower",
    ),
    "rounding up": (
        lambda: compared(
            (np.ceil(WIDE / STEP) * STEP).astype(np.float32),
            WIDE,
            (np.rint(WIDE / STEP) * STEP).astype(np.float32),
            source=WHY,
        ),
        "errors lie higher",
    ),
    "a unit by an outlier": (
        lambda: compared(changed(np.zeros_like(X), 0, 1e6), changed(THIRD, 0, 1e6), budget=5.0, source=WHY),
        "lets zeros pass in 90%",
    ),
    "a column of outliers": (
        lambda: compared(changed(COLUMN.astype(np.float32), np.s_[:, 1:], 0), COLUMN, COLUMN.astype(np.float32)),
        "lines along axis 0 of this size",
    ),
    "a budget as large as the golden": (
        lambda: compared((THIRD * 6e-5).astype(np.float32), THIRD * 1e-4, budget=1e-3, source=WHY),
        "as large as the golden",
    ),
    "columns that nobody has written": (
        lambda: compared(changed(np.sin(PADDED), np.s_[:, 8], 1e-8), np.sin(PADDED.astype(float)), np.sin(PADDED)),
        "lines along axis 0 that must be zero",
    ),
    "rows that hold whole numbers": (
        lambda: compared(
            changed(np.sin(PADDED.T), 8, 1e-40), np.sin(PADDED.T.astype(np.float64)), np.sin(PADDED.T.copy())
        ),
        "1 rows that must be zero hold up to 1e-40",
    ),
    "a golden of NaN": (
        lambda: compared(*[changed(np.full((64, 64), np.nan, kind), (0, 0), 1) for kind in "fdf"]),
        "1 element of the golden is finite",
    ),
    "Inf for NaN": (
        lambda: compared(
            changed(ROUNDED, (0, 0), np.inf), changed(THIRD, (0, 0), np.nan), changed(ROUNDED, (0, 0), np.nan)
        ),
        "1 of the golden's 1 NaN are not there",
    ),
    "eager that is wrong in one of many elements": (
        lambda: compared(
            np.resize(ROUNDED, (1024, 1024)),
            np.resize(THIRD, (1024, 1024)),
            changed(np.resize(ROUNDED, (1024, 1024)), (3, 3), 1),
        ),
        "rounding errors off",
    ),
    "eager in bf16 that is wrong by a half": (
        lambda: compared(
            correctly_rounded(plain(WIDE) * 1e-4, BF16),
            plain(WIDE) * 1e-4,
            (plain(WIDE) * 1e-4 * (1 + drawn(seed=3) / 2)).astype(np.float32).astype(BF16),
        ),
        "rounding errors off",
    ),
    "several eager, one of them far": (
        lambda: compared(ROUNDED.copy(), THIRD, [ROUNDED, (THIRD * 1.1).astype(np.float32)]),
        "rounding errors off",
    ),
    "nudged that is another golden": (lambda: compared(OFF, THIRD, ROUNDED, nudged=THIRD * 1.01), "nudged is .* off"),
    "steps without end": (
        lambda: compared(OFF, THIRD, ROUNDED, nudged=THIRD * (1 + 1e-7 * drawn(seed=5)), steps=10**9),
        r"steps is 10+: from 1 to 2\*\*24",
    ),
    "no step": (lambda: compared(ROUNDED, THIRD, ROUNDED.copy(), steps=0), "steps is 0"),
    "a result with a mask": (
        lambda: compared(np.ma.masked_less(OFF, 0), THIRD, ROUNDED),
        "elements are masked, so nobody compares them",
    ),
    "all with one mask": (
        lambda: compared(*[np.ma.masked_array(one, THIRD < 0) for one in (OFF, THIRD, ROUNDED)]),
        "elements are masked",
    ),
    "numbers in another order of bytes, wrong": (
        lambda: compared(changed(BIG_ENDIAN, 3, 1), THIRD, BIG_ENDIAN),
        "max_abs",
    ),
    "integers": (lambda: compared(np.arange(64), np.arange(64.0), np.arange(64)), "is for floating-point numbers"),
    "complex numbers": (lambda: compared(X.astype(complex), THIRD, ROUNDED), "is for floating-point numbers"),
    "no dimension": (lambda: compared(np.float32(0.3343), np.float64(1 / 3), np.float32(1 / 3)), "max_abs"),
    "strides": (
        lambda: compared(changed(ROUNDED, (5, 4), 9).T[::2, ::-1], THIRD.T[::2, ::-1], ROUNDED.T[::2, ::-1]),
        "max_abs",
    ),
    "a golden that is broadcast": (lambda: compared(ROUNDED, THIRD[:1], ROUNDED.copy()), "the golden .1, 64."),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_inside_the_budget_is_red(name):
    compare, words = FAULTS[name]
    with pytest.raises((ValueError, TypeError, AssertionError), match=words):
        compare()


def of_three(seed=0, dtype=BF16):
    narrow = [drawn(seed=seed + place).astype(dtype) for place in range(3)]
    return narrow, [one.astype(np.float64) for one in narrow]


def dot_of(length):
    narrow = [drawn((64, 64, length), seed).astype(BF16) for seed in (0, 1)]
    golden = (narrow[0].astype(np.float64) * narrow[1].astype(np.float64)).sum(-1)
    return correctly_rounded(golden, BF16), golden, (narrow[0] * narrow[1]).sum(-1, dtype=np.float32).astype(BF16)


class Masked(np.ndarray):
    """Hide all differences."""

    def __array_ufunc__(self, ufunc, method, *inputs, **words):
        return np.zeros(self.shape, self.dtype)


def right_cases():
    (a, b, c), (wide_a, wide_b, wide_c) = of_three()
    yield "three factors", (correctly_rounded(wide_a * wide_b * wide_c, BF16), wide_a * wide_b * wide_c, a * b * c)
    (a, b, c), (wide_a, wide_b, wide_c) = of_three(dtype=FP16)
    yield "a product and a sum", ((wide_a * wide_b + wide_c).astype(FP16), wide_a * wide_b + wide_c, a * b + c)
    for length in (3, 8, 16):
        yield f"{length} products", dot_of(length)
    yield "a cast", (X.astype(BF16), X.astype(np.float64), X.astype(BF16))
    yield "a sum in fp32", (X + X[::-1], X.astype(np.float64) + X[::-1], X + X[::-1])
    hand = np.array([0.5, 0.25, 1.5, 3, 1, 2, 0.125, 0.75] * 4)
    yield "numbers by hand", (np.nextafter(hand.astype(np.float32), np.float32(9)), hand, hand.astype(np.float32))
    yield "float64", (plain(WIDE / 2) ** 2, plain(WIDE), plain(WIDE / 4) ** 4)
    z = np.clip(200 * WIDE, -350, 350)
    yield "underflow", (2 * WIDE / (1 + plain(-2 * z)), WIDE * (1 + np.tanh(z)), WIDE * (1 + np.tanh(z)))
    yield "a subclass", (ROUNDED.view(np.recarray), THIRD, ROUNDED.copy())
    yield "a mask of nothing", (np.ma.masked_array(ROUNDED), THIRD, ROUNDED.copy())
    yield "another order of bytes", (BIG_ENDIAN, THIRD.astype(">f8"), BIG_ENDIAN.copy())
    above = np.triu(np.ones((64, 64), bool), 1)
    yield "Inf above the diagonal", [changed(one, above, -np.inf) for one in (ROUNDED, THIRD, ROUNDED)]
    yield "numbers of Python", (1 / 3, 1 / 3, 1 / 3)


RIGHT = dict(right_cases())


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_green(name):
    compared(*RIGHT[name])


def test_a_subclass_that_computes_otherwise_hides_nothing():
    with pytest.raises(AssertionError, match="max_abs"):
        compared(OFF.view(Masked), THIRD, ROUNDED)


def test_a_quantization_says_why_its_golden_is_short():
    narrow = drawn().astype(BF16)
    scale = np.float32(np.abs(narrow.astype(np.float32)).max() / 127)
    quantized = (np.rint(narrow.astype(np.float32) / scale) * scale).astype(BF16)
    compared(quantized, narrow.astype(np.float64), quantized.copy(), source="int8 has 127 steps to the largest value")


def test_a_declared_budget_of_a_sparse_output_holds():
    golden = np.maximum(WIDE, 0) / 3
    compared(golden.astype(np.float32), golden, budget=1e-6, source=WHY)


CATCHES = """
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest


def wrong(matrix):
    x = matrix.draw("x", (6, 33)).astype(np.float32)
    matrix.compare(x + 1, x.astype(np.float64), eager=x.copy())

def caught(matrix):
    with contextlib.suppress(Exception):
        wrong(matrix)

def test_raises(matrix):
    with pytest.raises(AssertionError):
        wrong(matrix)

def test_skips(matrix):
    caught(matrix)
    pytest.skip("not here")

def test_returns(matrix):
    try:
        wrong(matrix)
    finally:
        return

def test_strict(matrix, subtests):
    with subtests.test("one"):
        caught(matrix)

def test_thread(matrix):
    thread = threading.Thread(target=caught, args=[matrix])
    thread.start()
    thread.join()

def test_pool(matrix):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(wrong, matrix)

@pytest.fixture
def before(matrix):
    caught(matrix)

@pytest.fixture
def skips(before):
    pytest.skip("not here")

@pytest.fixture
def after(matrix):
    yield
    caught(matrix)

def test_setup(before):
    pass

def test_setup_skips(skips):
    pass

def test_teardown(after):
    pass

def test_shape(matrix):
    with contextlib.suppress(ValueError):
        matrix.compare(np.ones(4, np.float32), np.ones(5), eager=np.ones(4, np.float32))

def test_type(matrix):
    with contextlib.suppress(TypeError):
        matrix.compare(np.ones(4, int), np.ones(4), eager=np.ones(4, int))

def test_changed(matrix):
    x = matrix.draw("x", (6, 33))
    x *= 2
    with contextlib.suppress(Exception):
        matrix.compare(x.astype(np.float32), x + 0, eager=x.astype(np.float32))

def test_lambda(matrix):
    with pytest.raises(ValueError):
        matrix.check(lambda x: x, lambda x: x, {"x": np.ones(4, np.float32)})

@pytest.mark.xfail(reason="the package knows it")
def test_known(matrix):
    wrong(matrix)

def test_right(matrix):
    x = matrix.draw("x", (6, 33)).astype(np.float32)
    matrix.compare(np.exp(x), np.exp(x.astype(np.float64)), eager=np.exp(x))
"""


def test_a_test_that_catches_the_error_is_red(tmp_path):
    (tmp_path / "test_it.py").write_text(CATCHES)
    options = ["-q", "-rA", "--tb=no", "-p", "kernel_matrix.job.fixture", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    ended = re.findall(r"^(PASSED|FAILED|ERROR|SUBFAILED\S*|XFAIL) test_it.py::test_(\w+)", done.stdout, re.MULTILINE)
    red = {name for word, name in ended if word in ("FAILED", "ERROR")}
    all_tests = set(re.findall(r"^def test_(\w+)", CATCHES, re.MULTILINE))
    assert all_tests - red == {"known", "right"}, done.stdout
    assert ("XFAIL", "known") in ended
    assert "the test caught the error of a comparison, which counts all the same" not in done.stderr
    assert re.search(r"test_right out: .* noise 1 ×, eager is the result bit by bit$", done.stdout, re.MULTILINE)
