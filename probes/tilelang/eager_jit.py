# /// probe
# asks = "Does the eager form of @tilelang.jit, a body without a prim_func, compile?"
# means = "The function's own body is the kernel, and compile() makes it for a named target."
# met = "the first documents, 'TileLang eager JIT bug'"
# truth = "The eager form is sound. The first documents never reached it, because they gave jit a finished prim_func."
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
def add(a: T.Tensor((64,), "float32"), b: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64) as _:
        for i in T.Parallel(64):
            b[i] = a[i] + 1.0


with target:
    kernel = add.compile()
assert "__global__" in kernel.get_kernel_source()
