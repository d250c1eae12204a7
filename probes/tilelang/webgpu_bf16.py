# /// probe
# asks = "Does TileLang generate WGSL for bf16?"
# means = "A kernel that reads bf16 becomes source."
# met = "our own matrix, platform webgpu"
# platforms = ["webgpu"]
# truth = "The generator has no type for vectors of bf16, and WGSL has none for bf16. Words of 32 bits with two elements each do it: src/mhc/toolchain/wgsl.py."
# requires = ["tilelang"]
# [[expect]]
# verdict = "fails"
# match = "Cannot convert type bfloat16x4 to WebGPU type"
# ///
import tilelang
import tilelang.language as T
from tilelang import tvm


@T.prim_func
def main(a: T.Tensor((256,), "bfloat16"), b: T.Tensor((256,), "float32")):
    with T.Kernel(1, threads=64) as _:
        thread = T.get_thread_binding()
        raw = T.alloc_local((4,), "bfloat16")
        for k in T.vectorized(4):
            raw[k] = a[thread * 4 + k]
        for k in T.unroll(4):
            b[thread * 4 + k] = T.cast(raw[k], "float32")


target = tvm.target.Target({"kind": "webgpu"})
with target:
    tilelang.lower(main, target=target)
