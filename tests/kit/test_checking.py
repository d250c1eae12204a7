"""``matrix.check`` in a plain pytest suite: the kernel runs in a process of its own, under all checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import driving

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


def test_a_lambda(matrix):
    with pytest.raises(ValueError, match="cannot be imported by another process"):
        matrix.check(lambda x: x, plain, inputs(matrix))


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
    assert "6 failed, 3 passed" in done.stdout, done.stdout
    for code in ("kit-past-end", "kit-keeps-answers", "kit-rows", "kit-changed-process", "kit-magnitudes"):
        assert f"[{code}]" in done.stdout
    assert "the test caught the error of a comparison" in done.stdout
