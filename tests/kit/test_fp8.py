"""An operator whose output is an 8-bit float: the right kernel is green, faults of scales and of rounding are red."""

from __future__ import annotations

import sys
from pathlib import Path

import driving
import ml_dtypes
import numpy as np
import pytest
from common import python_of

from kernel_matrix.job.arrays import NARROW

BYTES = [name for name in NARROW if np.dtype(getattr(ml_dtypes, name)).itemsize == 1]
SUITE = """
from kernel_matrix.kit import array, operator

@operator(
    name="quantised",
    framework="{framework}",
    rows="tokens",
    x=array("tokens", "hidden"),
    outputs={{
        "y": array("tokens", "hidden", dtype="{dtype}"),
        "scale": array("tokens", lambda axes: axes["hidden"] // 32),
    }},
)
def test_quantised(x):
    groups = x.reshape(x.shape[0], x.shape[1] // 32, 32)
    scale = abs(groups).{largest} / {most}
    return (groups / scale[..., None]).reshape(x.shape), scale
"""
KERNELS = """
import ml_dtypes, numpy as np

def _groups(x):
    return x.reshape(len(x), x.shape[1] // 32, 32)

def _by(x, scale, y=None):
    groups = _groups(x)
    y = groups / scale[..., None] if y is None else y
    return y.reshape(x.shape).astype(np.float32).astype(ml_dtypes.{dtype}), scale.astype(np.float32)

def _scale(x):
    return np.abs(_groups(x)).max(-1) / np.float32({most})

def good(x):
    return _by(x, _scale(x))

def one_scale_for_a_row(x):
    return _by(x, np.repeat(_scale(x).max(-1, keepdims=True), x.shape[1] // 32, 1))

def largest_with_signs(x):
    return _by(x, _groups(x).max(-1) / np.float32({most}))

def not_divided(x):
    return _by(x, _scale(x), x)

def groups_shifted(x):
    return _by(x, np.roll(_scale(x), 1, 1))

def scales_shifted(x):
    y, scale = good(x)
    return y, np.roll(scale, 1, 1)

def toward_zero(x):
    y, scale = good(x)
    exact = _groups(x) / scale[..., None]
    away = np.abs(y.astype(np.float32).reshape(exact.shape)) > np.abs(exact)
    return (y.view(np.uint8) - away.reshape(x.shape)).view(y.dtype), scale

def scale_of_powers_alone(x):
    scale = _scale(x)
    return _by(x, scale)[0], np.exp2(np.ceil(np.log2(scale)))

def rounded_to_two_bits_first(x):
    y = _groups(x) / _scale(x)[..., None]
    bits = (y.view(np.uint32) + (1 << {cut} - 1)) >> {cut} << {cut}
    return _by(x, _scale(x), bits.view(np.float32))
"""
IN_TORCH = """
import torch

def good(x):
    groups = x.unflatten(1, (-1, 32))
    scale = groups.abs().amax(-1) / {most}
    return (groups / scale.unsqueeze(-1)).flatten(1).to(torch.{dtype}), scale

def toward_zero(x):
    y, scale = good(x)
    away = (y.float() * scale.repeat_interleave(32, 1)).abs() > x.abs()
    return (y.view(torch.uint8) - away.to(torch.uint8)).view(y.dtype), scale
"""


def red(folder: Path, framework: str, dtype: str, text: str, python: str = sys.executable) -> dict[str, str]:
    """Run all kernels of a text, and return the messages of those that are red."""
    kind = ml_dtypes.finfo(getattr(ml_dtypes, dtype))
    values = {"dtype": dtype, "most": float(kind.max), "cut": 23 - kind.nmant + 1, "framework": framework}
    suite = folder / "suite"
    suite.mkdir(parents=True)
    largest = "max(-1)" if framework == "numpy" else "amax(-1)"
    (suite / "test_operators.py").write_text(SUITE.format(**values, largest=largest))
    (folder / "narrow.py").write_text(text.format(**values))
    kernels = [line[4:].partition("(")[0] for line in text.splitlines() if line.startswith("def ") and line[4] != "_"]
    axes = {"tokens": 7, "hidden": 128, "dtype": "fp32"}
    cases = [("quantised", "forward", {**axes, "kernel": kernel}) for kernel in kernels]
    accuracy = {**driving.ACCURACY, "misrounded": 0.01}
    job = driving.run(folder / "job", suite, "narrow:{kernel}", cases, folder, python=python, accuracy=accuracy)
    assert len(job.ends) == len(kernels), job.output
    return {case.rpartition("kernel=")[2]: text for case, text in job.red().items()}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", BYTES)
def test_every_fault_of_a_narrow_output_is_red_and_the_right_kernel_green(tmp_path, dtype):
    found = red(tmp_path, "numpy", dtype, KERNELS)
    kernels = {line[4:].partition("(")[0] for line in KERNELS.splitlines() if line.startswith("def ")}
    assert found.keys() == {name for name in kernels if name[0] != "_"} - {"good"}, found


@pytest.mark.environments
@pytest.mark.parametrize("dtype", BYTES)
def test_pytorch_s_narrow_dtypes_are_compared_too(tmp_path, dtype):
    found = red(tmp_path, "torch", dtype, IN_TORCH, python_of("reference", "cpu-llvm"))
    assert found.keys() == {"toward_zero"}, found
