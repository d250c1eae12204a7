# /// probe
# asks = "Does the lazy form of @tilelang.jit, a function that returns a prim_func, compile?"
# means = "A jitted function that returns its prim_func works when the target is named."
# met = "the first documents, as one of the ways that were tried"
# truth = "It works in every version if the target is named. The function must return the prim_func, and must not be one."
# requires = ["tilelang"]
# needs = ["nvcc"]
# [[expect]]
# verdict = "works"
# ///
import tilelang
import tilelang.language as T
from tilelang import tvm

target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})


@tilelang.jit(target=target, execution_backend="tvm_ffi")
def add(n):
    @T.prim_func
    def main(a: T.Tensor((n,), "float32"), b: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=n) as _:
            for i in T.Parallel(n):
                b[i] = a[i] + 1.0

    return main


with target:
    kernel = add(64)
assert "__global__" in kernel.get_kernel_source()
