"""Call kernels that a double of a simulator knows by their names: it doubles the numbers, whatever the code says."""

import torch
import triton
import triton.language as tl


@triton.jit
def doubled(x, o, n, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(o + i, 2 * tl.load(x + i, i < n), i < n)


@triton.jit
def tripled(x, o, n, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(o + i, 3 * tl.load(x + i, i < n), i < n)


@triton.jit
def racing(x, o, n, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(o + i, tl.load(x + i, i < n), i < n)


values = torch.randn(100, device="cuda")
for kernel in (doubled, tripled, racing):
    kernel[1,](values, torch.empty(100, device="cuda"), 100, block=128)
