"""Call small kernels that run on emulated GPUs: some are right, and the others are wrong in several ways."""

import sys

import torch
import triton
import triton.language as tl
from launched_plain import negative
from triton.language.extra.hip import libdevice
from triton.runtime import driver


@triton.jit
def softmax(x, o, n, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    values = tl.load(x + row * n + i, i < n, other=-float("inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(o + row * n + i, powers / tl.sum(powers, 0), i < n)


@triton.autotune([triton.Config({"block": 64}), triton.Config({"block": 128}, num_warps=2)], key=["n"])
@triton.heuristics({"even": lambda args: args["n"] % args["block"] == 0})
@triton.jit
def scaled(x, o, n, factor, block: tl.constexpr, even: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    if even:
        tl.store(o + i, tl.load(x + i) * factor)
    else:
        tl.store(o + i, tl.load(x + i, i < n) * factor, i < n)


@triton.jit
def counted(x, counts, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.atomic_add(counts + tl.load(x + i, i < n, other=0), 1, mask=i < n)


@triton.jit
def product(a, b, o, depth, size: tl.constexpr):
    i = tl.arange(0, size)
    total = tl.zeros((size, size), tl.float32)
    for k in range(0, depth, size):
        total += tl.dot(tl.load(a + i[:, None] * depth + k + i[None]), tl.load(b + (k + i[:, None]) * size + i[None]))
    tl.store(o + i[:, None] * size + i[None], total)


@triton.jit
def without_mask(x, o, n, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(o + i, tl.load(x + i), i < n)


@triton.constexpr_function
def fault_of_gfx1100():
    return 1e-5 if driver.active.get_current_target().arch == "gfx1100" else 0.0


@triton.jit
def differs(x, o, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(o + i, tl.load(x + i) + fault_of_gfx1100())


@triton.jit
def extremes(x, y, o, block: tl.constexpr):
    i = tl.arange(0, block)
    a, b = tl.load(x + i), tl.load(y + i)
    every: tl.constexpr = tl.PropagateNan.ALL
    tl.store(o + i, tl.maximum(a, b))
    tl.store(o + block + i, tl.minimum(a, b))
    tl.store(o + 2 * block + i, tl.clamp(a, -0.5, 0.5))
    tl.store(o + 3 * block + i, tl.maximum(a, b, propagate_nan=every))
    tl.store(o + 4 * block + i, tl.minimum(a, b, propagate_nan=every))
    tl.store(o + 5 * block + i, tl.clamp(a, -0.5, 0.5, propagate_nan=every))
    tl.store(o + 6 * block + i, a - tl.max(b, 0))
    tl.store(o + 7 * block + i, a - tl.min(b, 0))


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def running(x, o, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(o + i, tl.associative_scan(tl.maximum(tl.load(x + i), 0.0), 0, larger))


@triton.jit
def atomic_extremes(x, o, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.atomic_max(o + i % 4, tl.load(x + i))
    tl.atomic_min(o + 4 + i % 4, tl.load(x + i))


@triton.jit
def assembly(x, o, block: tl.constexpr):
    i = tl.arange(0, block)
    values = tl.load(x + i)
    tl.store(o + i, tl.inline_asm_elementwise("v_add_f32 $0, $1, $1", "=v,v", [values], tl.float32, True, 1))


@triton.jit
def halting(x, o, block: tl.constexpr):
    i = tl.arange(0, block)
    values = tl.load(x + i)
    text: tl.constexpr = "s_sethalt 0\n v_mov_b32 $0, $1"
    tl.store(o + i, tl.inline_asm_elementwise(text, "=v,v", [values], tl.float32, True, 1))


def few() -> None:
    """Launch three of the kernels. One of them is wrong."""
    x = torch.randn(7, 100, device="cuda", dtype=torch.bfloat16)
    softmax[7,](x, torch.empty_like(x), 100, block=128)
    a, b = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((64, 128), (128, 64)))
    product[1,](a, b, torch.empty(64, 64, device="cuda"), 128, size=64)
    without_mask[1,](torch.randn(100, device="cuda"), torch.empty(100, device="cuda"), 100, block=128)


@triton.jit
def bent(x, out, block: tl.constexpr):
    at = tl.arange(0, block)
    tl.store(out + at, libdevice.tanh(negative(tl.load(x + at))))


@triton.jit
def drawn(x, out, seed, block: tl.constexpr):
    at = tl.arange(0, block)
    values = tl.load(x + at) * tl.rand(seed, at)
    tl.store(out + at, libdevice.copysign(libdevice.hypot(values, 2.0) + libdevice.erfinv(values * 0.1), values))


@triton.jit
def described(x, out, rows, columns, block: tl.constexpr):
    whole = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [block, block])
    at = tl.arange(0, block)
    tl.store(out + at[:, None] * block + at, whole.load([4, 8]) * 0.1)


def main() -> None:
    x = torch.randn(7, 100, device="cuda", dtype=torch.bfloat16)
    o = torch.empty_like(x)
    softmax[7,](x, o, 100, block=128)
    torch.testing.assert_close(o, x.float().softmax(-1).bfloat16(), atol=1e-2, rtol=1e-2)
    y = torch.randn(1024, device="cuda")
    z = torch.empty_like(y)
    scaled[lambda meta: (triton.cdiv(1000, meta["block"]),)](y, z, 1000, 0.1)
    scaled[lambda meta: (triton.cdiv(1000, meta["block"]),)](z, z, 1000, 10.0)  # of what the first has computed
    torch.testing.assert_close(z[:1000], y[:1000])
    counts = torch.zeros(8, device="cuda", dtype=torch.int32)
    counted[3,](torch.arange(300, device="cuda", dtype=torch.int32) % 8, counts, 300, block=128)
    assert counts.tolist() == [38] * 4 + [37] * 4
    a, b = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((32, 64), (64, 32)))
    o = torch.empty(32, 32, device="cuda")
    product[1,](a, b, o, 64, size=32)
    torch.testing.assert_close(o, a.float() @ b.float(), atol=1e-4, rtol=1e-4)
    differs[1,](y, z, block=128)
    assert torch.equal(y[:128], z[:128])
    assert torch.empty(2, 2, device="cuda", layout=torch.sparse_coo).is_sparse, "what cannot be filled is made too"
    some = torch.where(torch.arange(128, device="cuda") % 5 > 0, torch.randn(128, device="cuda"), float("nan"))
    extremes[1,](some, some.flip(0), torch.empty(8 * 128, device="cuda"), block=128)
    running[1,](
        torch.where(torch.arange(1024, device="cuda") < 9, -y.abs(), y), torch.empty(128, device="cuda"), block=128
    )
    drawn[1,](y, torch.empty(128, device="cuda"), 7, block=128)
    described[1,](torch.randn(12, 32, device="cuda"), torch.empty(256, device="cuda"), 12, 32, block=16)
    atomic_extremes[1,](y, torch.tensor([-1.0] * 4 + [1.0] * 4, device="cuda"), block=128)
    assembly[1,](y, z, block=128)
    assert torch.equal(2 * y[:128], z[:128]), "what the interpreter lacks is computed by the machine code"
    bent[1,](y, z, block=128)
    torch.testing.assert_close(z[:128], -y[:128].tanh(), atol=1e-5, rtol=1e-5)
    without_mask[1,](y[:100].clone(), z, 100, block=128)
    try:
        halting[1,](y, z, block=128)
    except RuntimeError as error:
        assert "halting is not computed" in str(error)  # noqa: PT017  here is no pytest


if __name__ == "__main__":
    torch.manual_seed(0)
    few() if "few" in sys.argv else main()
