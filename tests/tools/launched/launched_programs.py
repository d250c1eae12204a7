"""Compile and call programs of TileLang: one of two sizes, one that is compiled by itself, and one that fails."""

import tilelang
import tilelang.language as tl
import torch


@tilelang.jit(out_idx=[-1])
def product(size, tile, dtype="float16"):
    @tl.prim_func
    def main(x: tl.Tensor((size, size), dtype), y: tl.Tensor((size, size), dtype), z: tl.Tensor((size, size), dtype)):
        with tl.Kernel(tl.ceildiv(size, tile), tl.ceildiv(size, tile), threads=128) as (bx, by):
            a = tl.alloc_shared((tile, 32), dtype)
            b = tl.alloc_shared((32, tile), dtype)
            c = tl.alloc_fragment((tile, tile), "float32")
            tl.clear(c)
            for k in tl.Pipelined(tl.ceildiv(size, 32), num_stages=2):
                tl.copy(x[by * tile, k * 32], a)
                tl.copy(y[k * 32, bx * tile], b)
                tl.gemm(a, b, c)
            tl.copy(c, z[by * tile, bx * tile])

    return main


@tl.prim_func
def add(x: tl.Tensor((1024,), "float32"), y: tl.Tensor((1024,), "float32")):
    with tl.Kernel(8, threads=128) as bx:
        for i in tl.Parallel(128):
            y[bx * 128 + i] = x[bx * 128 + i] + 1.0


@tl.prim_func
def wrong(x: tl.Tensor((1024,), "float32")):
    with tl.Kernel(8, threads=128) as bx:
        for i in tl.Parallel(128):
            x[bx * 128 + i] = tl.call_extern("float32", "no_such_function", x[bx * 128 + i])


x = torch.randn(256, 256, device="cuda", dtype=torch.float16)
for tile in (64, 128):
    y = product(256, tile)(x, x)
    assert y.shape == (256, 256)
    assert y.is_cuda
    assert y.dtype == torch.float16
assert tilelang.compile(add, out_idx=[1])(torch.zeros(1024, device="cuda")).shape == (1024,)
tilelang.compile(wrong, pass_configs={tilelang.PassConfigKey.TL_DISABLE_TMA_LOWER: True})
