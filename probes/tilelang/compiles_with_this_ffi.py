# /// probe
# asks = "Does this tilelang lower a kernel with the apache-tvm-ffi in its environment?"
# means = "The pair fits; an import alone does not show it."
# met = "tilelang 0.1.8 with apache-tvm-ffi 0.1.10 and 0.1.11, which import and then fail"
# truth = "The Python part of tilelang 0.1.8 subclasses a class of apache-tvm-ffi whose layout changed in 0.1.10."
# requires = ["tilelang"]
# [[expect]]
# versions = ["tilelang==0.1.8", "apache-tvm-ffi>=0.1.10,<0.1.12"]
# verdict = "fails"
# match = "'_NestedLoopCheckVisitor' object has no attribute '_inst'"
# [[expect]]
# versions = ["tilelang==0.1.8", "apache-tvm-ffi>=0.1.12"]
# verdict = "fails"
# match = "registered class|is not writable"
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
    assert "__global__" in tilelang.lower(main, target=target).kernel_source
