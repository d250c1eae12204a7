# /// probe
# asks = "Does T.gemm of fp32 lower for RDNA (gfx1100)?"
# means = "fp32 matrix products need no cast for RDNA."
# met = "our own matrix, platform rocm"
# platforms = ["rocm"]
# truth = "RDNA's WMMA has no fp32 input, and tilelang has no fallback for it. Use bf16 or fp16 operands."
# requires = ["tilelang>=0.1.10"]
# [[expect]]
# verdict = "fails"
# match = "Unsupported a_dtype: float32"
# ///
import tilelang
import tilelang.language as T
from tilelang import tvm


@T.prim_func
def main(a: T.Tensor((64, 64), "float32"), b: T.Tensor((64, 64), "float32"), c: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128) as _:
        left = T.alloc_shared((64, 64), "float32")
        right = T.alloc_shared((64, 64), "float32")
        sums = T.alloc_fragment((64, 64), "float32")
        T.clear(sums)
        T.copy(a, left)
        T.copy(b, right)
        T.gemm(left, right, sums)
        T.copy(sums, c)


target = tvm.target.Target({"kind": "hip", "mcpu": "gfx1100"})
with target:
    assert tilelang.lower(main, target=target).kernel_source
