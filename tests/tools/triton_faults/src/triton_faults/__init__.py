"""Kernels that double a vector, each with one fault, which its numbers do not show."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK = 64


@triton.jit
def sound(x, out, spare, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def read_past(x, out, spare, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + i, 2 * tl.load(x + i), mask=i < n)


@triton.jit
def read_before(x, out, spare, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    neighbour = tl.load(x + i - 1, mask=i < n, other=0.0)
    value = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(out + i, tl.where(i < 0, neighbour, 2 * value), mask=i < n)


@triton.jit
def write_past(x, out, spare, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n, other=0.0))


@triton.jit
def loop_past(x, out, spare, n, block: tl.constexpr):
    for step in range(tl.program_id(0), tl.cdiv(n, block), tl.num_programs(0)):
        i = step * block + tl.arange(0, block)
        tl.store(out + i, 2 * tl.load(x + i, mask=i <= n, other=0.0), mask=i < n)


@triton.jit
def index_past(x, out, spare, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    other = tl.load(x + tl.load(spare + i, mask=i < n, other=0), mask=i < n, other=0.0)
    value = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(out + i, tl.where(i < 0, other, 2 * value), mask=i < n)


@triton.jit
def atomic_past(x, out, spare, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.atomic_add(spare + i, 1, mask=i <= n)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def race(x, out, spare, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(spare, tl.program_id(0))
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def never_written(x, out, spare, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    nothing = tl.load(spare + i, mask=i < n, other=0)
    value = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(out + i, tl.where(i < 0, nothing.to(tl.float32), 2 * value), mask=i < n)


@triton.jit
def descriptor(x, out, spare, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    described = tl.make_tensor_descriptor(x, [n], [1], [block])
    tl.store(out + i, 2 * described.load([tl.program_id(0) * block]), mask=i < n)


@triton.jit
def branch(x, out, spare, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    if tl.program_id(0) < 1:  # it is sound: tilelens looks at the branch with every program
        tl.store(spare + n - 1 + tl.program_id(0), 0)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def branch_past(x, out, spare, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    if tl.program_id(0) < 1:
        tl.store(spare, 0)
    else:  # tilelens looks at the branch of the first program only
        tl.store(spare, tl.load(spare + n))
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n, other=0.0), mask=i < n)


def double(kernel: str, x: torch.Tensor) -> torch.Tensor:
    """Return 2x by the kernel of that name."""
    n, out = x.numel(), torch.empty_like(x)
    spare = torch.empty(n, dtype=torch.int32)
    if kernel == "view-past":  # the tensor ends, and the memory does not
        kernel, x = "read-past", torch.cat([x, x, x])[n : 2 * n]
    if kernel == "index-past":
        spare = torch.arange(n, dtype=torch.int32) + 1
    named = globals()[kernel.replace("-", "_")]
    named[(triton.cdiv(n, BLOCK),)](x, out, spare, n, block=BLOCK)
    return out
