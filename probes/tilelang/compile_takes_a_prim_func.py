# /// probe
# asks = "Does tilelang.compile take a finished prim_func?"
# means = "This is the form that the first documents needed: compile(prim_func, target=...), on a machine without a GPU."
# met = "the first documents, as the right form of what failed"
# truth = "It compiles if the target is named. Only the decorator was wrong."
# requires = ["tilelang"]
# needs = ["nvcc"]
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


target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
with target:
    kernel = tilelang.compile(main, target=target, execution_backend="tvm_ffi")
assert "__global__" in kernel.get_kernel_source()
