"""A line that compares tensors is said to allow the most that it lets through, as one of arrays is."""

from __future__ import annotations

import re

import pytest
from common import python_of
from in_environment import run

pytestmark = pytest.mark.environments

HEAD = """
import numpy as np, pytest, torch
from torch.testing import assert_close
torch.manual_seed(0)
x = torch.randn(64)
x[5] = 4.0  # the largest
y = x.clone()
big = torch.randn(300, 4000)
big[151, 3000] = 64
z = torch.complex(x[:32], x[32:])
z[5] = 3 + 4j
low = torch.full((8,), -64.0).bfloat16()
end = torch.tensor([100, -128, 127], dtype=torch.int8)
"""
# A test, and how far its line lets one element be off.
CASES = {
    "tuple": ("assert_close((x, 100 * x), (y, 100 * y), rtol=1e-3, atol=0)", 0.4),
    "dict": ("assert_close({'a': x, 'b': [100 * x]}, {'a': y, 'b': [100 * y]}, rtol=1e-3, atol=0)", 0.4),
    "tuple_of_dtypes": ("assert_close((x.double(), 100 * x), (y.double(), 100 * y), rtol=1e-3, atol=0)", 0.4),
    "list": ("assert all(torch.allclose(n * x, n * y, rtol=1e-3, atol=0) for n in range(9))", 0.032),
    "later": ("\n    for n in range(9): assert (n * x).allclose(n * y, rtol=1e-3, atol=0)", 0.032),
    "large": ("assert torch.allclose(big, big.clone(), rtol=1e-3, atol=0)", 0.064),
    "large_each": ("assert torch.isclose(big, big.clone(), rtol=1e-3, atol=0).all()", 0.064),
    "large_strided": ("assert_close(big.T[::2], big.T[::2].clone(), rtol=1e-2, atol=0)", 0.64),
    "large_narrow": ("assert_close(big.bfloat16(), big.bfloat16(), rtol=0.05, atol=0)", 3.0),
    "large_row": ("assert torch.allclose(big * 0 + 9, torch.full((4000,), 9.0), rtol=1e-3, atol=0)", 0.009),
    "complex": ("assert torch.allclose(z, z.clone(), rtol=1e-2, atol=0)", 0.05),
    "complex_conjugate": ("assert_close(z.conj(), z.conj().clone(), rtol=1e-2, atol=0)", 0.05),
    "complex_matrix": ("assert_close(z.reshape(4, 8), z.reshape(4, 8).clone(), rtol=1e-2, atol=0)", 0.05),
    "complex_each": ("assert torch.isclose(z, z.clone(), rtol=1e-2, atol=0).all()", 0.05),
    "complex_exact": ("assert torch.equal(z, z.clone())", None),
    "number": ("assert_close(x[5].item(), 4.0, rtol=0.5, atol=0)", 2),
    "numbers": ("assert_close([1.0, x[5].item()], [1.0, 4.0], rtol=0.5, atol=0)", 2),
    "no_dimension": ("assert_close(x[5], torch.tensor(4.0), rtol=0.5, atol=0)", 2),
    "no_dimension_approx": ("assert x[5] == pytest.approx(4.0, rel=0.5)", 2),
    "item": ("assert x[5].item() == pytest.approx(4.0, rel=0.5)", 2),
    "numpy": ("np.testing.assert_allclose(x[5], 4.0, rtol=0.5)", 2),
    "numbers_first": ("assert np.allclose([1.0, 4.0], x[[5, 5]] * torch.tensor([0.25, 1]), rtol=0.1, atol=0)", 0.444),
    "narrow": ("assert_close(low, low.clone(), rtol=0, atol=1.3)", 1.25),
    "whole": ("assert_close(end, end.clone(), rtol=0, atol=3)", 3),
    "gradient": ("assert torch.allclose(x.clone().requires_grad_(), y, rtol=0.5, atol=0)", 2),
}

for name, message in {"lambda": "lambda m: 'far ' + m", "type": "str", "text": "'far'"}.items():
    CASES[f"message_{name}"] = (f"assert_close(x, y, rtol=1e-2, atol=0, msg={message})", 0.04)
for name, matrix in {"row": "x, y.repeat(4, 1)", "column": "x[:, None], y[:, None].expand(64, 3)"}.items():
    CASES[f"{name}_of_a_matrix"] = (f"assert torch.allclose({matrix}, rtol=1e-2, atol=0)", 0.04)
CASES["turned"] = ("m = x + x[:, None]; assert_close(m, m.T, rtol=1e-2, atol=0)", 0.08)
SAME = {
    "memory": "assert_close(x.view(8, 8).flatten(), x)",
    "tensor": "assert torch.equal(x.contiguous(), x)",
    "of_numpy": "np.testing.assert_allclose(x.numpy(), x)",
}


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("told")
    for name, text in [*((name, text) for name, (text, _) in CASES.items()), *SAME.items()]:
        (folder / f"test_{name}.py").write_text(f"{HEAD}\ndef test_it(): {text}\n")
    options = ("-p", "kernel_matrix.job.fixture", "-p", "no:cacheprovider", "--kernel-matrix-canaries")
    return run(python_of("triton-3.7"), "-m", "pytest", "-q", *options, folder)


@pytest.mark.parametrize("name", CASES)
def test_a_line_allows_the_most_that_it_lets_through(told, name):
    (line,) = re.findall(rf".*/test_{name}\.py:.* sees .*", told)
    words, allows = re.search(r"One element may be off by ([\d.e-]+)", line), CASES[name][1]
    assert (words is None) == (allows is None), line
    assert allows is None or allows / 1.03 <= float(words[1].rstrip(".")) <= 1.001 * allows, line


@pytest.mark.parametrize("name", SAME)
def test_what_is_in_the_same_memory_is_not_told(told, name):
    assert f"{len(CASES) + len(SAME)} passed" in told, told[-2000:]
    assert f"test_{name}.py:" not in told
