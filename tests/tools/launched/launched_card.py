"""Call kernels on a GPU: some have a fault that only some launches show, and the others are sound."""

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def sound(x, o, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(o + i, tl.load(x + i, i < n) * 2, i < n)


@triton.jit
def adding(x, o, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.atomic_add(o, tl.sum(tl.load(x + i, i < n, other=0.0)))


@triton.jit
def racing(x, o, n, block: tl.constexpr):
    """Begin with what an earlier block may have left."""
    i = tl.arange(0, block)
    before = tl.load(o)
    tl.store(o, before + tl.sum(tl.load(x + (tl.program_id(0) * block + i) % n)))


@triton.jit
def overwritten(history, o, steps, block: tl.constexpr):
    """Read a history that the first block overwrites at its end: on a large GPU every block has read it by then."""
    tile, i = tl.program_id(0), tl.arange(0, block)
    values = tl.load(history + i)
    work = values
    for _ in range(steps if tile == 0 else 2 * steps):
        work = work * 0.5 + tl.sum(work) * 0.001
    tl.store(o + tile * block + i, values + work * 0)
    if tile == 0:
        tl.store(history + i, -1.0)


@triton.jit
def past_the_end(x, o, n, block: tl.constexpr):
    """Read a block of numbers, of which the last ones are behind the end."""
    tl.store(o, tl.sum(tl.load(x + tl.arange(0, block))))


@triton.jit
def without_mask(x, o, rows, n, stride, block: tl.constexpr):
    """Read into the padding of rows."""
    row, i = tl.program_id(0), tl.arange(0, block)
    tl.store(o + row, tl.max(tl.load(x + row * stride + i), 0))


@triton.jit
def of_padded_rows(x, o, rows, n, stride, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    tl.store(o + row, tl.max(tl.load(x + row * stride + i, i < n, other=-float("inf")), 0))


@triton.jit
def written_past(x, o, n, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(o + i, tl.load(x + i, i < n, other=0.0))


@triton.autotune([triton.Config({"block": size}) for size in (1024, 512, 2048)], key=["n"])
@triton.jit
def wrong_config(x, o, n, block: tl.constexpr):
    """Add all numbers up, if the block has room for them."""
    i = tl.arange(0, block)
    tl.store(o, tl.sum(tl.load(x + i, i < n, other=0.0)))


@triton.autotune([triton.Config({"block": size}) for size in (64, 128, 256)], key=["n"])
@triton.jit
def partial_sums(x, o, n, block: tl.constexpr):
    """Write a sum for each block: how many there are depends on the configuration."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(o + tl.program_id(0), tl.sum(tl.load(x + i, i < n, other=0.0)))


@triton.autotune([triton.Config({"block": 64}), triton.Config({"block": 256}, num_warps=8)], key=["n"])
@triton.jit
def doubled(x, o, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(o + i, tl.exp(tl.load(x + i, i < n)) * 2, i < n)


@triton.jit
def product(a, b, o, depth, size: tl.constexpr):
    i = tl.arange(0, size)
    total = tl.zeros((size, size), tl.float32)
    for k in range(0, depth, size):
        total += tl.dot(tl.load(a + i[:, None] * depth + k + i[None]), tl.load(b + (k + i[:, None]) * size + i[None]))
    tl.store(o + i[:, None] * size + i[None], total)


class Buffer:
    """An object of a package's own that has the memory of a tensor, and is none."""

    def __init__(self, base):
        self.base, self.dtype = base, base.dtype

    def __getattr__(self, name):
        if name in ("data_ptr", "untyped_storage", "numel", "element_size"):
            return getattr(self.base, name)
        raise AttributeError(name)


def padded(rows, width, stride):
    return torch.randn(rows, stride, device="cuda")[:, :width]


torch.manual_seed(0)
x, n = torch.rand(1000, device="cuda"), 1000
o = lambda *size: torch.zeros(*size, device="cuda")  # noqa: E731
CALLS = {
    "sound": lambda: sound[(4,)](x, torch.empty_like(x), n, block=256),
    "wrapped": lambda: sound[(4,)](Buffer(x), Buffer(torch.empty_like(x)), n, block=256, num_warps=2),
    "stepping": lambda: of_padded_rows[(5,)](padded(5, 60, 64)[:, :1].expand(5, 60), o(5), 5, 60, 64, block=64),
    "adding": lambda: adding[(8,)](x, o(1), n, block=128),
    "racing": lambda: racing[(256,)](x, o(1), n, block=64),
    "overwritten": lambda: overwritten[(200,)](torch.rand(64, device="cuda"), o(200 * 64), 40, block=64),
    "past_the_end": lambda: past_the_end[(1,)](x, o(1), n, block=1024),
    "without_mask": lambda: without_mask[(5,)](padded(5, 60, 64), o(5), 5, 60, 64, block=64),
    "of_padded_rows": lambda: of_padded_rows[(5,)](padded(5, 60, 64), o(5), 5, 60, 64, block=64),
    "written_past": lambda: written_past[(1,)](x, o(1000), n, block=1024),
    "wrong_config": lambda: wrong_config[(1,)](x, o(1), n),
    "partial_sums": lambda: partial_sums[lambda meta: (triton.cdiv(n, meta["block"]),)](x, o(16), n),
    "doubled": lambda: doubled[lambda meta: (triton.cdiv(n, meta["block"]),)](x, torch.empty_like(x), n),
    "product": lambda: product[(1,)](
        torch.randn(64, 128, device="cuda").half(), torch.randn(128, 64, device="cuda").half(), o(64, 64), 128, size=64
    ),
}
for name in sys.argv[1:] or CALLS:
    try:
        CALLS[name]()
    except RuntimeError as error:  # the reference refuses what is outside of a tensor, and so does a GPU
        print(f"{name}: {error}")
