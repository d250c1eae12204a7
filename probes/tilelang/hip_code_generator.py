# /// probe
# asks = "Does the wheel generate HIP source?"
# means = "A kernel becomes source for gfx942 with no ROCm on the machine."
# met = "our own matrix, platform rocm"
# platforms = ["rocm"]
# truth = "The wheels of 0.1.8 and 0.1.9 are built without the HIP code generator. Later wheels have it."
# requires = ["tilelang"]
# [[expect]]
# versions = ["tilelang<0.1.10"]
# verdict = "fails"
# match = 'Cannot find global function target\.build\.tilelang_hip_without_compile'
# [[expect]]
# verdict = "works"
# ///
import tilelang
import tilelang.language as T
from tilelang import tvm


@T.prim_func
def main(a: T.Tensor((64,), "float32"), b: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64) as _:
        for i in T.Parallel(64):
            b[i] = a[i] + 1.0


target = tvm.target.Target({"kind": "hip", "mcpu": "gfx942"})
with target:
    assert "__global__" in tilelang.lower(main, target=target).kernel_source
