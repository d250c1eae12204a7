"""TVM's kernels whose loops a search has arranged: a trace that was found at one shape is right at others."""

from __future__ import annotations

import pytest
from common import python_of
from in_environment import run

pytestmark = [pytest.mark.environments, pytest.mark.nightly]  # the matrix has such kernels

PROGRAM = """
import torch
from mhc.backends import NotSupportedError, load
from mhc.backends.tvm.searched.kernel import SearchedKernel
from mhc.ops.mhc_post import MhcPostInputs, empty_outputs

kernel, reference = load("tvm", "mhc_post"), load("reference", "mhc_post")
print(isinstance(kernel, SearchedKernel), isinstance(load("tvm", "mhc_post", "backward"), SearchedKernel))
for tokens, streams, hidden in ((1, 2, 1), (33, 16, 72), (129, 5, 203)):
    x, y = torch.randn(tokens, streams, hidden), torch.randn(tokens, hidden)
    inputs = MhcPostInputs(x, y, torch.randn(tokens, streams), torch.randn(tokens, streams, streams))
    out, expected = empty_outputs(inputs), empty_outputs(inputs)
    kernel.run(inputs, out)
    reference.run(inputs, expected)
    print(torch.allclose(out.out, expected.out, rtol=1e-5, atol=1e-5))
for target in ("rv64gcv", "sm_90"):
    try:
        kernel.run(inputs, out, target)
    except (NotSupportedError, ValueError) as error:
        print(error)
"""


def test_a_trace_is_right_at_shapes_at_which_nothing_was_searched():
    python = python_of("tvm-0.27-searched", "cpu-llvm")
    assert run(python, "-c", PROGRAM, MHC_TVM_SCHEDULES="searched").splitlines() == [
        "True False",
        *["True"] * 3,
        "the loops were arranged for x86-64 CPUs, not for rv64gcv",
        "mhc_post: the tvm backend has the operator for LLVM CPU targets only, not for 'sm_90'",
    ]
