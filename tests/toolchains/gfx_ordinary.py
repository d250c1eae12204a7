"""Run kernels with what packages often have on emulated GPUs, and compare with PyTorch in fp64: prints JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import torch
import triton
import triton.language as tl

from gpu_emulators.amd.triton_driver import emulated

N = 256


@triton.jit
def counted(x, o, size: tl.constexpr, bins: tl.constexpr):
    tl.store(o + tl.arange(0, bins), tl.histogram(tl.load(x + tl.arange(0, size)), bins))


@triton.jit
def angles(x, o, size: tl.constexpr):
    i = tl.arange(0, size)
    values = tl.load(x + i)
    tl.store(o + i, tl.sin(values))
    tl.store(o + size + i, tl.cos(values))


@triton.jit
def doubles(x, y, o, size: tl.constexpr):
    i = tl.arange(0, size)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(o + i, a / b)
    tl.store(o + size + i, tl.sqrt(tl.abs(a)))
    tl.store(o + 2 * size + i, tl.floor(a))
    tl.store(o + 3 * size + i, tl.ceil(a))
    tl.store(o + 4 * size + i, tl.maximum(a, b))
    tl.store(o + 5 * size + i, tl.minimum(a, b))
    tl.store(o + 6 * size + i, tl.where(a < b, a, b))
    tl.store(o + 7 * size + i, tl.exp(b))
    tl.store(o + 8 * size + i, tl.log(tl.abs(a)))


@triton.jit
def products(x, y, o, n, size: tl.constexpr):
    i = tl.arange(0, size)
    at = i[:, None] * size + i[None, :]
    total = tl.full((size, size), 1.0, tl.float64)
    for k in range(n):
        place = k * size * size + at
        total = tl.dot(tl.load(x + place), tl.load(y + place), total, out_dtype=tl.float64)
    tl.store(o + at, total)


@triton.jit
def constants(x, o, n, size: tl.constexpr):
    i = tl.arange(0, size)
    product = tl.full((size,), 1.0, tl.float64)
    for _ in range(n):
        product *= tl.load(x + i)
    tl.store(o + i, product)


@triton.jit
def long_constants(x, o, n, size: tl.constexpr):
    i = tl.arange(0, size)
    total = tl.full((size,), 0x80000000, tl.int64)
    for _ in range(n):
        total += tl.load(x + i) & 0xF0000000
    tl.store(o + i, total)


@triton.jit
def bytes_of(x, y, o, size: tl.constexpr):
    i = tl.arange(0, size)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(o + i, a * b + a - b)
    tl.store(o + size + i, tl.maximum(a, b) >> 1)


@triton.jit
def halves(x, y, o, size: tl.constexpr):
    i = tl.arange(0, size)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(o + i, tl.maximum(tl.maximum(a, b), -b))
    tl.store(o + size + i, tl.clamp(a, -1.0, 1.0))


@triton.jit
def random(o, seed, size: tl.constexpr):
    i = tl.arange(0, size)
    tl.store(o + i, tl.rand(seed, i))


def philox(seed: int, count: int) -> torch.Tensor:
    """Return the first of four numbers for each offset, by ten rounds of Philox, as tl.rand makes a fraction of it."""
    mask = 2**32 - 1
    result = []
    for offset in range(count):
        c, k = [offset, 0, 0, 0], [seed & mask, seed >> 32]
        for _ in range(10):
            high = [0xD2511F53 * c[0] >> 32, 0xCD9E8D57 * c[2] >> 32]
            low = [0xD2511F53 * c[0] & mask, 0xCD9E8D57 * c[2] & mask]
            c = [high[1] ^ c[1] ^ k[0], low[1], high[0] ^ c[3] ^ k[1], low[0]]
            k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
        signed = c[0] - (1 << 32) if c[0] >> 31 else c[0]
        result.append((-signed - 1 if signed < 0 else signed) * 4.6566127342e-10)
    return torch.tensor(result, dtype=torch.double)


def far(got: torch.Tensor, right: torch.Tensor) -> float:
    """Return the largest relative distance; what is not finite must be the same."""
    got, right = got.double(), right.double()
    same = (got == right) | (got.isnan() & right.isnan())
    distance = (got - right).abs() / right.abs()
    return float(torch.where(same, 0.0, torch.where(distance.isnan(), torch.inf, distance)).max())


def spread(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.double) * 10.0 ** torch.randint(-300, 300, shape).double()


def distances(target: str) -> Iterator[tuple[str, Any]]:
    x = torch.randint(0, 16, (1024,), dtype=torch.int32)
    counted[1,](x, o := torch.zeros(16, dtype=torch.int32), 1024, 16)
    yield "counted", torch.equal(o, torch.bincount(x, minlength=16).int())
    for size in (3.0, 1e6, 1e20):
        values = torch.randn(N) * size
        angles[1,](values, o := torch.zeros(2 * N), N)
        right = torch.cat([values.double().sin(), values.double().cos()])
        yield f"angles {size:g}", float((o.double() - right).abs().max())
    special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1e-310], dtype=torch.double)
    a, b = torch.cat([special, spread(N - 6)]), torch.cat([spread(N - 12), special, torch.randn(6).double()])
    doubles[1,](a, b, o := torch.zeros(9 * N, dtype=torch.double), N)
    right = [a / b, a.abs().sqrt(), a.floor(), a.ceil(), torch.fmax(a, b), torch.fmin(a, b), torch.where(a < b, a, b)]
    names = ("a / b", "sqrt", "floor", "ceil", "maximum", "minimum", "where", "exp", "log")
    for name, got, one in zip(names, o.view(9, N), [*right, b.exp(), a.abs().log()], strict=True):
        yield f"doubles {name}", far(got, one)
    if target != "gfx942":  # Triton 3.7 compiles no product of doubles for it
        c, d = torch.randn(2, 3, 32, 32, dtype=torch.double)
        products[1,](c, d, o := torch.zeros(32, 32, dtype=torch.double), 3, 32)
        yield "products", float((o - 1 - torch.bmm(c, d).sum(0)).abs().max())
    y = torch.randn(N, dtype=torch.double)
    constants[1,](y, o := torch.zeros_like(y), 3, N)
    yield "constants", far(o, y**3)
    long = torch.randint(0, 2**34, (N,))
    long_constants[1,](long, o := torch.zeros_like(long), 3, N)
    yield "long constants", torch.equal(o, 0x80000000 + 3 * (long & 0xF0000000))
    p, q = torch.randint(-128, 128, (2, N), dtype=torch.int8)
    bytes_of[1,](p, q, o := torch.zeros(2 * N, dtype=torch.int8), N)
    yield "bytes", torch.equal(o, torch.cat([p * q + p - q, torch.maximum(p, q) >> 1]))
    r, s = torch.randn(2, N).half()
    halves[1,](r, s, o := torch.zeros(2 * N).half(), N)
    yield "halves", torch.equal(o, torch.cat([torch.maximum(torch.maximum(r, s), -s), r.clamp(-1, 1)]))
    random[1,](o := torch.zeros(N), 1234, N)
    yield "random", float((o.double() - philox(1234, N)).abs().max())


def main() -> None:
    for target in sys.argv[1:]:
        torch.manual_seed(1)
        with emulated(target):
            for name, result in distances(target):
                print(json.dumps([name, target, result]))


if __name__ == "__main__":
    main()
