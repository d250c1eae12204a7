# /// probe
# asks = "Does tilelang.compile for CUDA say that nvcc is missing?"
# means = "The message names nvcc or the CUDA toolkit, so that the reader knows what to install."
# met = "the first documents, [Errno 2] No such file or directory: 'nvcc'"
# truth = "Compiling for CUDA needs nvcc on PATH or CUDA_HOME. Nothing was wrong with the kernel."
# requires = ["tilelang"]
# [[expect]]
# verdict = "works"
# ///
import os

os.environ |= {"PATH": "/nowhere", "CUDA_HOME": "/nowhere", "CUDA_PATH": "/nowhere", "TILELANG_DISABLE_CACHE": "1"}

import tilelang
import tilelang.language as T
from tilelang import tvm


@T.prim_func
def main(a: T.Tensor((64,), "float32"), b: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64) as _:
        for i in T.Parallel(64):
            b[i] = a[i] + 1.0


target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
try:
    with target:
        tilelang.compile(main, target=target, execution_backend="tvm_ffi")
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    if "nvcc" not in str(error) and "CUDA" not in str(error):
        raise
else:
    raise AssertionError("it compiled for CUDA although there is no nvcc on PATH")
