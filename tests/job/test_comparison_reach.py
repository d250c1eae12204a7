"""A line is said to allow the most that it lets through, over all that it compares."""

from __future__ import annotations

import json
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from test_comparison_sizes import NORMAL, asked, close
from test_suite_canaries import pytest_in

from kernel_matrix.job.suite_canaries.asking import FACT, Asking
from kernel_matrix.job.suite_canaries.summing import in_words, summed

HEAD = """
import numpy as np, pytest
from numpy.testing import assert_allclose, assert_almost_equal, assert_array_almost_equal, assert_equal
x = np.random.default_rng(0).normal(size=64)
x[5] = 4.0  # the largest
y = x.copy()
big = np.random.default_rng(0).normal(size=(300, 4000)).astype(np.float32)
big[151, 3000] = 64
odd = np.where(big < 2, big, np.inf)
odd[::7, ::7] = np.nan
odd[151, 3001] = 64
row = np.arange(4000.0)
z = x[:32] + 1j * x[32:]
z[5] = 3 + 4j
f = float(x[5])
"""
# A test, and how far its line lets one element be off.
SEQUENCES = {
    "tuple": ("assert_allclose((x, 100 * x), (y, 100 * y), rtol=1e-3)", 0.4),
    "list_of_other_dtypes": ("assert np.allclose([x, 1000 * x], [y, 1000 * y], rtol=1e-3, atol=0)", 4),
    "list_of_shapes": ("assert_equal([x, 8 * x[:9]], [y, 8 * y[:9]])", None),
    "dict_of_approx": ("assert {'a': f, 'b': 100 * f} == pytest.approx({'a': f, 'b': 100 * f}, rel=1e-3)", 0.4),
    "later_call": ("\n    for n in range(9): assert_allclose(n * x, n * y, rtol=1e-3)", 0.032),
    "later_call_of_approx": ("\n    for n in range(9): assert n * f == pytest.approx(n * f, rel=1e-3)", 0.032),
    "list_of_scalars": ("assert np.allclose([x[5], 50 * x[5]], [y[5], 50 * y[5]], rtol=1e-3, atol=0)", 0.2),
    "row_of_a_matrix": ("assert np.allclose(x, np.tile(x, (4, 1)), rtol=1e-2, atol=0)", 0.04),
    "each_of_a_matrix": ("assert np.isclose(x, np.tile(x, (4, 1)), rtol=1e-2, atol=0).all()", 0.04),
    "one_of_many": ("assert_allclose(x[5], np.full(5, 4.0), rtol=1e-2)", 0.04),
    "row_of_large": ("assert np.allclose(row, np.zeros((300, 1)) + row, rtol=1e-3, atol=0)", 3.999),
    "turned": ("\n    m = x + x[:, None]\n    assert_allclose(m, m.T, rtol=1e-2)", 0.08),
    "whole_beyond_float64": ("assert_equal(n := np.array([2**61, 5]), n.copy())", None),
    "other_tolerance": ("\n    for n in range(1, 9): assert_allclose(x, y, atol=n / 100, rtol=0)", 0.08),
}
LARGE = {
    "allclose": ("assert np.allclose(big, big.copy(), rtol=1e-3, atol=0)", 0.064),
    "assert_allclose": ("assert_allclose(big, big.copy(), rtol=1e-2)", 0.64),
    "flat": ("assert np.allclose(big.ravel(), big.flatten(), rtol=1e-3, atol=0)", 0.064),
    "each": ("assert np.isclose(big, big.copy(), rtol=1e-3, atol=0).all()", 0.064),
    "strided": ("assert np.allclose(big.T[::2], big.T[::2].copy(), rtol=1e-3, atol=0)", 0.064),
    "of_three_axes": (
        "assert np.allclose(big.reshape(3, 400, 1000), big.reshape(3, 400, 1000).copy(), rtol=1e-3, atol=0)",
        0.064,
    ),
    "with_nan": ("assert_allclose(odd, odd.copy(), rtol=1e-3)", 0.064),
    "expected_in_one_row": ("assert np.allclose(np.zeros((300, 1)) + row, row, rtol=1e-3)", 3.999),
    "one_number": ("assert np.allclose(big, 0, atol=99)", 99),
}
COMPLEX = {
    "allclose": ("assert np.allclose(z, z.copy(), rtol=1e-2, atol=0)", 0.05),
    "assert_allclose": ("assert_allclose(z.astype(np.complex64), z, rtol=1e-2)", 0.05),
    "matrix": ("assert_allclose(z.reshape(4, 8), z.reshape(4, 8).copy(), rtol=1e-2)", 0.05),
    "almost_equal": ("assert_array_almost_equal(z, z.copy(), decimal=1)", 0.15),
    "numbers": ("assert_almost_equal(z[5], z[5].copy(), decimal=1)", 0.15),
    "python": ("assert np.allclose(complex(z[5]), 3 + 4j, rtol=1e-2, atol=0)", 0.05),
    "approx": ("assert complex(z[5]) == pytest.approx(3 + 4j, rel=1e-2)", 0.05),
    "of_real": ("assert_allclose(x + 0j, y, rtol=1e-2)", 0.04),
    "large": (
        "\n    w = np.full((300, 200), 1j); w[77, 7] = -30 - 40j\n    assert_allclose(w, w.copy(), rtol=1e-2)",
        0.5,
    ),
    "exact": ("assert np.array_equal(z, z.copy())", None),
}
NUMBERS = {
    "assert_allclose": ("assert_allclose(f, 4.0, rtol=0.5)", 2),
    "allclose": ("assert np.allclose(f, 4.0, rtol=0.5, atol=0)", 2),
    "list_first": ("assert np.allclose([1.0, 4.0], np.array([1.0, 4.0]), rtol=0.01, atol=0)", 0.0404),
    "number_first": ("assert np.allclose(4.0, x[5:6], rtol=0, atol=0.3)", 0.3),
    "lists": ("assert_allclose([1.0, 4.0], [1, 4], rtol=0.01)", 0.04),
    "nested_lists": ("assert_allclose([[1.0, 4.0]], [[1.0, 4.0]], rtol=0.01)", 0.04),
    "tuple": ("assert_allclose((1.0, 4.0), [1.0, 4.0], rtol=0.01)", 0.04),
    "scalar": ("assert_allclose(np.float32(4), 4.0, rtol=0.5)", 2),
    "approx": ("assert f == pytest.approx(4.0, rel=0.5)", 2),
    "approx_of_scalar": ("assert x[5] == pytest.approx(4, abs=0.5)", 0.5),
    "approx_of_list": ("assert [1.0, f] == pytest.approx([1.0, 4.0], rel=0.5)", 2),
    "approx_of_array": ("assert np.array([1.0, f]) == pytest.approx([1.0, 4.0], rel=0.5)", 2),
    "approx_first": ("assert pytest.approx(4.0, rel=0.5) == f", 2),
    "approx_of_tuple": ("assert (1.0, f) == pytest.approx((1.0, 4.0), abs=0.25)", 0.25),
    "almost_equal": ("assert_almost_equal(f, 4.0, decimal=2)", 0.015),
    "of_no_dimension": ("assert_allclose(np.array(4.0), 4.0, atol=0.1, rtol=0)", 0.1),
    "exact": ("assert_equal(f, 4.0)", None),
}
# Below a power of two the numbers of a narrow dtype stand twice as close, and at its end there is one way only.
DIRECTIONS = {
    "bf16": (ml_dtypes.bfloat16, 1.0, 0.0195),
    "negative bf16": (ml_dtypes.bfloat16, -64.0, 1.25),
    "fp16": (np.float16, 2.0, 0.0049),
    "fp8": (ml_dtypes.float8_e4m3fn, 8.0, 2.5),
    "int8": (np.int8, 127, 200),
    "uint8": (np.uint8, 255, 200),
    "uint8 at zero": (np.uint8, 0, 3),
    "int16": (np.int16, -32768, 40000),
    "fp16 at its end": (np.float16, 65504.0, 1024.0),
}
NOT_ASKED = {
    "shape": "assert_equal(x.shape, (64,))",
    "count": "assert_equal(len(x), 64)",
    "whole_numbers": "assert np.array_equal([1, 2], [1, 2]); assert_allclose(3, 3)",
    "text": "assert_equal('a', 'a'); assert ['a'] == pytest.approx(['a'])",
    "truth": "assert_equal([True], [True]); assert np.array_equal(True, True)",
    "nothing": "assert_equal([], []); assert [] == pytest.approx([]); assert None == pytest.approx(None)",
    "same_memory": "assert_allclose(x.reshape(8, 8), x[:].reshape(8, -1)); assert np.array_equal(np.asarray(x), x)",
    "same_list": "v = w = [1.5, f]; assert_allclose(v, w)",
    "whole_numbers_as_floats": "n = np.array([2**61 + 3, 5]); assert_allclose(n, n.copy(), rtol=0)",
    "by_hand": "assert abs(f - 4.0) < 0.1",
}
KINDS = {"sequences": SEQUENCES, "large": LARGE, "complex": COMPLEX, "numbers": NUMBERS}
EVERY = {f"{kind}_{name}": case for kind, cases in KINDS.items() for name, case in cases.items()}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Return the lines that are told of each test, by its name."""
    folder: Path = tmp_path_factory.mktemp("reach")
    texts = {**{name: text for name, (text, _) in EVERY.items()}, **NOT_ASKED}
    for name, text in texts.items():
        (folder / f"test_{name}.py").write_text(f"{HEAD}\ndef test_it(): {text}\n")
    printed = pytest_in(folder, "--kernel-matrix-canaries")
    assert f"{len(texts)} passed" in printed, printed[-3000:]
    return {
        name: [line for line in printed.splitlines() if line.startswith(f"test_{name}.py:") and "sees" in line]
        for name in texts
    }


def allowed(line: str) -> float | None:
    words = line.partition("One element may be off by ")[2]
    return float(words.split(";")[0]) if words else None


@pytest.mark.parametrize("name", EVERY)
def test_a_line_allows_the_most_that_it_lets_through(told, name):
    (line,) = told[name]
    allows = EVERY[name][1]
    assert (allowed(line) is None) == (allows is None), line
    assert allows is None or allows / 1.03 <= allowed(line) <= 1.001 * allows, line


@pytest.mark.parametrize("name", DIRECTIONS)
def test_an_element_may_be_off_to_both_sides(name):
    dtype, value, tolerance = DIRECTIONS[name]
    values = np.full(8, value, dtype)
    with np.errstate(all="ignore"):
        bits = np.arange(2 ** (8 * values.itemsize)).astype(f"u{values.itemsize}").view(dtype).astype(float)
    errors = np.abs(bits[np.isfinite(bits)] - value)
    line = asked(lambda one, other: bool(np.all(np.abs(one.astype(float) - other) <= tolerance)), values)
    assert line["allows"] == float(f"{errors[errors <= tolerance].max():.3g}")


def test_the_noise_of_a_large_array_is_that_of_its_largest_number():
    values = np.ones((300, 400), np.float16)
    values[100, 30] = 64
    assert asked(close(atol=0), values)["budget"] == 4 * 2**-5


@pytest.mark.parametrize("name", NOT_ASKED)
def test_what_is_no_comparison_of_measured_numbers_is_not_told(told, name):
    assert told[name] == []


@pytest.mark.parametrize("error", [0.0, 0.01, -0.01])
def test_an_element_is_off_from_what_is_expected(error):
    line = asked(close(atol=0.1), NORMAL + error, NORMAL)
    assert line["allows"] == pytest.approx(0.1, rel=0.03)


@pytest.mark.parametrize("shape", [(8, 4), (1, 4), (8, 1), (3, 8, 4), (1,)])
def test_where_each_element_has_a_tolerance_it_is_at_least_what_was_found(tmp_path, shape):
    tolerance = f"np.linspace(0.1, 0.2, {np.prod(shape)}).reshape({shape})"
    test = f"def test_it(): assert np.allclose(np.ones((3, 8, 4)), 1, atol=0, rtol={tolerance})"
    (tmp_path / "test_a.py").write_text(f"import numpy as np\n{test}\n")
    assert "One element may be off by at least 0.0985;" in pytest_in(tmp_path, "--kernel-matrix-canaries")


def test_what_could_not_be_asked_is_at_least_that(tmp_path):
    asking = Asking(tmp_path)
    asking.begin("test_a.py")
    for used in (0.0, 1e9):
        asking._all_used = used
        asking.ask("close", close(rtol=0.1), NORMAL, NORMAL.copy(), asserts=True)
    fact = asking.facts()[FACT]
    assert json.loads(fact)["lines"][0]["at least"] is True
    assert "may be off by at least 0.38" in "".join(map(in_words, summed([fact])))


@pytest.mark.parametrize(("rtol", "words"), [(0.1, "by 0.4[23].?"), (2, "by anything")])
def test_the_larger_error_of_the_second_argument_is_told(rtol, words):
    asking = Asking(Path(__file__).parent)
    asking.begin(__file__)
    asking.ask("close", close(rtol=rtol), NORMAL, NORMAL.copy(), asserts=True)
    (line,) = map(in_words, summed([asking.facts()[FACT]]))
    assert re.search(rf"may be off by [\d.]+, and {words} if the second argument is the result; four", line), line
