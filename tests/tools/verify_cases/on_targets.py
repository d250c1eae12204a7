"""Triton kernels that an interpreter finds right: on a GPU two of them are not."""

RIGHT = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax_kernel(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    v = tl.exp(v - tl.max(v, axis=0))
    tl.store(y + row * n + at, v / tl.sum(v, axis=0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
"""
MASKED = 'tl.load(x + row * n + at, mask=at < n, other=-float("inf"))'
PAST_THE_END = RIGHT.replace(MASKED, 'tl.where(at < n, tl.load(x + row * n + at), -float("inf"))')
RACES = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def parts(x, sums, n, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    v = tl.exp(tl.load(x + row * n + at, mask=at < n, other=-float("inf")) - tl.load(sums + 2 * row))
    tl.store(sums + 2 * row + 1, tl.load(sums + 2 * row + 1) + tl.sum(v, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.shape[1]
        sums = torch.zeros(x.shape[0], 2, device=x.device)
        sums[:, 0] = x.max(1).values
        parts[(x.shape[0], triton.cdiv(n, 64))](x, sums, n, BLOCK=64)
        return torch.exp(x - sums[:, :1]) / sums[:, 1:]
"""
CANDIDATES = {"right": RIGHT, "reads past the end": PAST_THE_END, "races": RACES}
