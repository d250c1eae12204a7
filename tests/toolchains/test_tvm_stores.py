"""TVM's results that go past the caches have the bits of small ones, wherever they begin in memory."""

from __future__ import annotations

import pytest
from common import python_of
from in_environment import run

pytestmark = [pytest.mark.environments, pytest.mark.nightly]  # the matrix has results as large

# 32 MiB and more go past the caches: with 1024 tokens and four streams at a hidden size of 2048. The rows of 2056 are
# no whole vectors, and a result that begins one element late has no vector where such a store could go.
PROGRAM = """
import torch
from mhc.backends import load
from mhc.ops import expand, mhc_post, mhc_pre

def memory(tensor, late):
    return torch.full((tensor.numel() + late,), float("nan"))[late:].view(tensor.shape)

def part(values, tokens, size):
    take = lambda value: value[tokens] if isinstance(value, torch.Tensor) and len(value) == size else value
    return type(values)(*(take(value) for value in values))

def compared(op, direction, inputs, out, late):
    size, kernel = len(inputs[0]), load("tvm", op, direction)
    out = type(out)(*(None if each is None else memory(each, late) for each in out))
    kernel.run(inputs, out)
    for tokens in (slice(0, 70), slice(size - 70, size)):
        few = part(inputs, tokens, size)
        small = type(out)(*(None if each is None else torch.empty_like(each) for each in part(out, tokens, size)))
        kernel.run(few, small)
        if not torch.equal(small[0], out[0][tokens]):
            return False
    return True

torch.set_num_threads(2)
for hidden in (2048, 2056):
    for late in (0, 1):
        x, y, layer = torch.randn(1024, 4, hidden), torch.randn(1024, hidden), torch.randn(1024, 4, hidden)
        h_post, h_res = torch.randn(1024, 4), torch.randn(1024, 4, 4)
        phi, alpha, bias = torch.randn(24, 4 * hidden) / 64, torch.randn(3), torch.randn(24)
        given = mhc_post.MhcPostInputs(x, y, h_post, h_res)
        print(
            compared("expand", "forward", expand.ExpandInputs(y, 4), expand.ExpandOutputs(x), late),
            compared("mhc_post", "forward", given, mhc_post.MhcPostOutputs(x), late),
            compared(
                "mhc_post", "backward", mhc_post.MhcPostBackwardInputs(*given, layer),
                mhc_post.MhcPostGrads(x, y, h_post, h_res), late,
            ),
            compared(
                "mhc_pre", "backward",
                mhc_pre.MhcPreBackwardInputs(
                    x=x, phi=phi, alpha=alpha, bias=bias, gamma=None, m=torch.randn(1024, 24), r=torch.rand(1024),
                    grad_h_in=y, grad_h_post=h_post, grad_h_res=h_res,
                ),
                mhc_pre.MhcPreGrads(x=x, phi=None, alpha=None, bias=None, gamma=None), late,
            ),
        )
"""


def test_a_large_result_has_the_bits_of_its_parts():
    assert run(python_of("tvm-0.27", "cpu-llvm"), "-c", PROGRAM).splitlines() == ["True True True True"] * 4
