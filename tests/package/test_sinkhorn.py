"""Sinkhorn against its equations in exact arithmetic: nothing here is read off the reference.

The exponentials of the logits are whole numbers, so that every iteration is a quotient of whole numbers. Each test runs
on every backend whose toolchain is installed and runs on a CPU. The equations of Inductor's are the reference's.
"""

from __future__ import annotations

import importlib.util
import math
import os
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
import torch

import mhc
import mhc.ops.sinkhorn
from mhc.backends import load

TOOLCHAINS = {"reference": "torch", "triton": "triton", "tilelang": "tilelang", "tvm": "tvm", "cpp": "torch"}
BACKENDS = [
    backend
    for backend, toolchain in TOOLCHAINS.items()
    # Triton has no CPU device but its interpreter.
    if importlib.util.find_spec(toolchain) and (backend != "triton" or os.environ.get("TRITON_INTERPRET") == "1")
]

# Powers of e of the logits. Rows and columns have unlike sums, so that every order of the steps gives another matrix.
POWERS = {
    2: [[1, 2], [3, 40]],
    3: [[5, 1, 2], [3, 70, 1], [1, 4, 9]],
    4: [[1, 7, 2, 9], [30, 1, 2, 2], [5, 5, 60, 1], [2, 3, 4, 5]],
}

pytestmark = [
    pytest.mark.parametrize("backend", BACKENDS),
    # NumPy in Triton's interpreter warns of inf - inf.
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
]


class Dual(NamedTuple):
    """A number and its derivative by one logit."""

    value: Fraction
    slope: Fraction

    def __add__(self, other):
        return Dual(self.value + other.value, self.slope + other.slope)

    def __truediv__(self, other):
        value = self.value / other.value
        return Dual(value, (self.slope - value * other.slope) / other.value)


def total(line):
    result = line[0]
    for entry in line[1:]:
        result = result + entry
    return result


def divide_columns(matrix):
    """T_c of the paper: each entry by the sum of its column."""
    sums = [total(column) for column in zip(*matrix, strict=True)]
    return [[entry / sums[j] for j, entry in enumerate(row)] for row in matrix]


def divide_rows(matrix):
    """T_r of the paper: each entry by the sum of its row."""
    return [[entry / total(row) for entry in row] for row in matrix]


def paper(powers, iterations):
    """Equation 9: M = T_r(T_c(M)) from M = exp(logits)."""
    for _ in range(iterations):
        powers = divide_rows(divide_columns(powers))
    return powers


def released(powers, iterations, eps):
    """The released code, from its description: ``comb`` has the streams that are read first, and those written last.

    Softmax over the last dimension, plus eps; over the sums of the first dimension plus eps; then in turn over the sums
    of the last and of the first dimension, each plus eps.
    """

    def over_last(comb):
        return [[entry / (total(row) + eps) for entry in row] for row in comb]

    def over_first(comb):
        sums = [total(column) + eps for column in zip(*comb, strict=True)]
        return [[entry / sums[n] for n, entry in enumerate(row)] for row in comb]

    comb = [[entry / total(row) + eps for entry in row] for row in powers]
    comb = over_first(comb)
    for _ in range(iterations - 1):
        comb = over_first(over_last(comb))
    return comb


def transposed(matrix):
    return [list(row) for row in zip(*matrix, strict=True)]


def fractions(matrix):
    return [[Fraction(entry) for entry in row] for row in matrix]


def logits_of(powers):
    return torch.tensor([[math.log(entry) for entry in row] for row in powers], dtype=torch.float64).float()


def matrix_of(logits, **options):
    """Return the matrix of one token, computed together with a copy of it: a compiler has one kernel for one token
    alone, and another for several, which all tests of this file can share.
    """
    matrix, copy = mhc.sinkhorn(logits.repeat(2, 1, 1), **options)
    assert torch.equal(matrix, copy)
    return matrix


def assert_close(result, exact, limit=1e-6):
    expected = torch.tensor([[float(entry) for entry in row] for row in exact], dtype=torch.float64)
    torch.testing.assert_close(result.detach().double(), expected, rtol=0, atol=limit)


@pytest.mark.parametrize("n", POWERS)
@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_the_paper_s_form_divides_columns_first_and_rows_last(n, iterations, backend):
    exact = paper(fractions(POWERS[n]), iterations)
    rows_first = transposed(paper(transposed(fractions(POWERS[n])), iterations))
    assert max(abs(a - b) for rows in zip(exact, rows_first, strict=True) for a, b in zip(*rows, strict=True)) > 1e-4
    assert_close(matrix_of(logits_of(POWERS[n]), iterations=iterations, backend=backend), exact)


@pytest.mark.parametrize("n", POWERS)
@pytest.mark.parametrize(("iterations", "eps"), [(1, 1e-6), (1, 0.125), (2, 1e-6), (2, 0.125), (3, 1e-6), (3, 0.125)])
def test_deepseek_s_form_is_the_released_code_transposed(n, iterations, eps, backend):
    comb = released(transposed(fractions(POWERS[n])), iterations, Fraction(eps))
    matrix = matrix_of(logits_of(POWERS[n]), iterations=iterations, eps=eps, form="deepseek", backend=backend)
    assert_close(matrix, transposed(comb))
    if eps == 1e-6:
        default = matrix_of(logits_of(POWERS[n]), iterations=iterations, form="deepseek", backend=backend)
        assert torch.equal(default, matrix)


def test_streams_are_mixed_as_the_released_code_mixes_them(backend):
    """out[n] = Σ_m comb[m, n] · residual[m]."""
    residual = [[Fraction(1), Fraction(-2)], [Fraction(3), Fraction(5)], [Fraction(-7), Fraction(4)]]
    comb = released(transposed(fractions(POWERS[3])), 2, Fraction(1e-6))
    exact = [[sum(comb[m][n] * residual[m][d] for m in range(3)) for d in range(2)] for n in range(3)]
    matrix = mhc.sinkhorn(logits_of(POWERS[3]), iterations=2, form="deepseek", backend=backend)
    x = torch.tensor([[float(entry) for entry in row] for row in residual])
    assert_close(mhc.mhc_post(x, torch.zeros(2), torch.zeros(3), matrix, backend=backend), exact, 1e-5)


@pytest.mark.parametrize("iterations", [1, 2, 3])
@pytest.mark.parametrize("form", ["paper", "deepseek"])
def test_the_gradient_goes_through_the_iterations(form, iterations, backend):
    """Forward-mode derivatives in exact arithmetic: the derivative of exp(l) by l is exp(l)."""
    powers, weights, eps = fractions(POWERS[3]), [[2, -1, 3], [0, 5, -4], [1, 1, -2]], 0.125
    exact = [[Fraction(0)] * 3 for _ in range(3)]
    for i, j in np.ndindex(3, 3):
        seeded = [
            [Dual(entry, entry if (a, b) == (i, j) else Fraction(0)) for b, entry in enumerate(row)]
            for a, row in enumerate(powers)
        ]
        if form == "paper":
            matrix = paper(seeded, iterations)
        else:
            matrix = transposed(released(transposed(seeded), iterations, Dual(Fraction(eps), Fraction(0))))
        exact[i][j] = sum(weights[a][b] * matrix[a][b].slope for a, b in np.ndindex(3, 3))
    logits = logits_of(POWERS[3]).requires_grad_()
    options = {"eps": eps} if form == "deepseek" else {}
    matrix = matrix_of(logits, iterations=iterations, form=form, backend=backend, **options)
    (matrix * torch.tensor(weights)).sum().backward()
    assert_close(logits.grad, exact, 4e-6)


def in_logarithms(logits, iterations):
    """The paper's form in float64 and in logarithms throughout, where nothing underflows."""
    m = logits.astype(np.float64)
    for _ in range(iterations):
        for axis in (0, 1):
            m = m - np.logaddexp.reduce(m, axis=axis, keepdims=True)
    return np.exp(m)


@pytest.mark.parametrize("iterations", [1, 2, 7, 20])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_logits_of_hundreds_are_right(n, iterations, backend):
    """A difference of logits is off by up to 3e-5 in fp32, and an entry by as much of itself."""
    logits = torch.from_numpy(np.random.default_rng(n).normal(size=(50, n, n)) * 100).float()
    exact = np.stack([in_logarithms(token.numpy(), iterations) for token in logits])
    result = mhc.sinkhorn(logits, iterations=iterations, backend=backend)
    torch.testing.assert_close(result.double(), torch.from_numpy(exact), rtol=0, atol=2e-4)
    torch.testing.assert_close(result.sum(dim=2), torch.ones(50, n), rtol=0, atol=2e-6)


@pytest.mark.parametrize("iterations", [1, 2, 20])
@pytest.mark.parametrize("logits", [[[800, 0], [800, 0]], [[800, 800], [0, 0]]])
def test_lines_that_would_underflow_keep_sums_of_one_in_the_paper_s_form(logits, iterations, backend):
    # Several tokens, as in the test above: a backend that compiles has their kernels already.
    matrices = mhc.sinkhorn(torch.tensor([logits, logits]).float(), iterations=iterations, backend=backend)
    for matrix in matrices:
        assert_close(matrix, [[0.5, 0.5], [0.5, 0.5]])


def test_lines_that_would_underflow_in_deepseek_s_form(backend):
    """If a row underflows, its quotients are eps, and after one iteration its sum is n / (n + 1)."""

    def run(logits, iterations):
        return matrix_of(torch.tensor(logits).float(), iterations=iterations, form="deepseek", backend=backend)

    assert_close(run([[800, 800], [0, 0]], 1), [[0.5, 0.5], [1 / 3, 1 / 3]], 2e-6)
    for logits in ([[800, 800], [0, 0]], [[800, 0], [800, 0]]):
        assert_close(run(logits, 2), [[0.5, 0.5], [0.5, 0.5]], 2e-6)


@pytest.mark.parametrize("form", ["paper", "deepseek"])
def test_a_logit_of_minus_infinity_is_an_entry_of_zero_and_has_no_gradient(form, backend):
    """The other entries are those for a logit whose exponential is 0; eps of the form deepseek shows in the entry."""
    logits = logits_of(POWERS[3]).repeat(2, 1, 1)
    logits[0, 1, 2], logits[1, 1, 2] = -math.inf, -5000.0
    logits.requires_grad_()
    weights = torch.tensor([[2.0, -1, 3], [0, 5, -4], [1, 1, -2]])
    matrix = mhc.sinkhorn(logits, iterations=20, form=form, backend=backend)
    (matrix * weights).sum().backward()
    assert torch.equal(matrix[0], matrix[1])
    assert torch.equal(logits.grad[0], logits.grad[1])
    assert logits.grad[0, 1, 2] == 0
    assert 0 <= matrix[0, 1, 2] <= (0 if form == "paper" else 1e-5)
    assert_close(matrix[0].sum(dim=1, keepdim=True), [[1.0]] * 3, 5e-6)


def test_lines_of_minus_infinity_have_no_doubly_stochastic_matrix(backend):
    """The result is NaN, except for a row in the form deepseek, whose eps makes it a row of equal entries."""
    column, row = torch.zeros(2, 3, 3), torch.zeros(2, 3, 3)
    column[0, :, 1], row[0, 1, :] = -math.inf, -math.inf
    for form, iterations in (("paper", 20), ("deepseek", 20)):
        broken, whole = mhc.sinkhorn(column, iterations=iterations, form=form, backend=backend)
        assert broken.isnan().all()
        assert_close(whole, [[1 / 3] * 3] * 3, 2e-6)
    broken, whole = mhc.sinkhorn(row, backend=backend)
    assert broken.isnan().all()
    assert_close(whole, [[1 / 3] * 3] * 3)
    one = mhc.sinkhorn(row, iterations=1, backend=backend)[0]
    assert one[1].isnan().all()
    assert_close(one[[0, 2]], [[1 / 3] * 3] * 2)
    assert_close(mhc.sinkhorn(row, iterations=iterations, form="deepseek", backend=backend)[0], [[1 / 3] * 3] * 3, 5e-6)


def test_rows_sum_to_one_where_the_columns_have_not_converged(backend):
    logits = torch.from_numpy(np.random.default_rng(0).normal(size=(100, 4, 4)) * 10).float()
    matrix = mhc.sinkhorn(logits, backend=backend).double()
    assert (matrix.sum(dim=2) - 1).abs().max() < 1e-6
    assert (matrix.sum(dim=1) - 1).abs().max() > 1e-3


@pytest.mark.parametrize("iterations", [1, 2, 20, 41, 100])
@pytest.mark.parametrize("scale", [1, 100, 300])
@pytest.mark.parametrize("form", ["paper", "deepseek"])
def test_a_gradient_of_huge_logits_is_a_number_and_right_where_the_matrix_is(form, scale, iterations, backend):
    """An entry that is next to nothing has a scale without bound; what it weighs stays below one."""
    torch.manual_seed(iterations)
    logits = scale * torch.randn(12, 4, 4)
    incoming = torch.randn(12, 4, 4)
    results = []
    for name, dtype in ((backend, torch.float32), ("reference", torch.float64)):
        leaf = logits.to(dtype).requires_grad_()
        if dtype == torch.float64:
            matrix = load("reference", "sinkhorn").equations(leaf, iterations, mhc.ops.sinkhorn.FORMS[form], form)[0]
        else:
            matrix = mhc.sinkhorn(leaf, iterations=iterations, form=form, backend=name)
        results.append((matrix.detach(), torch.autograd.grad(matrix, leaf, incoming.to(dtype))[0]))
    (matrix, grad), (exact, expected) = results
    right = (matrix.double() - exact).abs().amax((1, 2)) < 1e-5  # else fp32 has lost entries in the first matrix
    assert right.sum() >= 8
    if backend == "reference":  # plain code: it is NaN for some of these
        right &= grad.isfinite().all(2).all(1)
    assert grad[right].isfinite().all()
    assert (grad.double() - expected)[right].abs().max() <= 1e-5
