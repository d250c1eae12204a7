"""``matrix.check`` in a plain pytest suite: the kernel runs in a process of its own, under all checks."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial, wraps
from pathlib import Path

import driving
import numpy as np
import pytest

from kernel_matrix.job.suite_compare import Comparer

FAULTS = Path(__file__).with_name("faults")
SUITE = """
import subprocess
import numpy as np
import numpy_norm
import pytest


def plain(x, gain):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / (((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) ** 0.5 * gain


def inputs(matrix):
    x = matrix.draw("x", (7, 24)).astype(np.float32)
    return {"x": x, "gain": matrix.draw("gain", (24,), mean=1, scale=0.3).astype(np.float32)}


@pytest.mark.parametrize("kernel", ["good", "before_the_start", "memo_by_corner", "hides_nan", "leaks_files", "clamps"])
def test_norm(matrix, kernel):
    matrix.check(getattr(numpy_norm, kernel), plain, inputs(matrix), rows="x", writes=True)


def test_children_of_the_test_stay(matrix):
    child = subprocess.Popen(["sleep", "60"])
    matrix.check("numpy_norm:good", plain, inputs(matrix), rows="x", writes=True)
    assert child.poll() is None
    child.kill()
    child.wait()


def test_ones_for_a_gain(matrix):
    ones = {**inputs(matrix), "gain": np.ones(24, np.float32)}
    matrix.check("numpy_norm:without_gain", plain, ones, rows="x", writes=True)


def test_caught(matrix):
    try:
        matrix.check(numpy_norm.sums_in_half, plain, inputs(matrix), rows="x", writes=True)
    except AssertionError:
        pass
"""


def test_a_kernel_is_checked_in_a_plain_suite(tmp_path):
    (tmp_path / "test_it.py").write_text(SUITE)
    path = os.pathsep.join(map(str, (driving.ROOT / "src", FAULTS)))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "kernel_matrix.job.fixture",
            "-p",
            "no:cacheprovider",
            "--tb=short",
        ],
        env={**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "7 failed, 2 passed" in done.stdout, done.stdout
    for code in ("kit-past-end", "kit-keeps-answers", "kit-rows", "kit-changed-process", "kit-magnitudes"):
        assert f"[{code}]" in done.stdout
    assert "the test caught the error of a comparison" in done.stdout


def plain(x):
    return x * 2


def kernel(x):
    return 2 * x


@wraps(kernel)
def wrapped(x):
    return x * 3


class Kernel:
    def __call__(self, x):
        return 2 * x


X = np.ones((4, 3), np.float32)
GIVEN = {
    "a lambda": (lambda x: 2 * x, {"x": X}, {}, "cannot be imported by another process"),
    "another function of its name": (wrapped, {"x": X}, {}, "'kernel' cannot be imported by another process"),
    "a part of a function": (partial(kernel), {"x": X}, {}, "cannot be imported"),
    "an object": (Kernel(), {"x": X}, {}, "cannot be imported"),
    "a method": (Kernel().__call__, {"x": X}, {}, "'Kernel.__call__' cannot be imported"),
    "plain code": (plain, {"x": X}, {}, "is the kernel and its plain code"),
    "plain code by its name": (f"{__name__}:plain", {"x": X}, {}, "is the kernel and its plain code"),
    "no input": (kernel, {}, {}, "the inputs are none"),
    "rows of no input": (kernel, {"x": X}, {"rows": "y"}, "rows= names y, and the inputs are x"),
    "unequal rows": (kernel, {"x": X, "y": X[1:]}, {"rows": ["x", "y"]}, "counts rows, and they have"),
    "rows of a number": (kernel, {"x": X[0, 0]}, {"rows": "x"}, "counts rows"),
    "no name": (kernel, {"x": X}, {"name": "a.b"}, "is no name of an output"),
    "a list": (kernel, {"x": [1.0]}, {}, "list is no array of"),
    "a mask": (kernel, {"x": np.ma.masked_equal(X, 1)}, {}, "12 elements are masked"),
}


@pytest.mark.parametrize("name", GIVEN)
def test_what_cannot_be_checked_is_said_and_counts(name):
    given, inputs, words, text = GIVEN[name]
    comparer = Comparer("t", None)
    with pytest.raises((ValueError, TypeError), match=text):
        comparer.check(given, plain, inputs, **words)
    assert len(comparer.faults) == 1


def test_a_name_is_checked_once():
    comparer = Comparer("t", None)
    comparer.metrics["kernel_forward_out.elements"] = 12.0
    with pytest.raises(ValueError, match="this test has checked 'kernel' already"):
        comparer.check(kernel, plain, {"x": X})
