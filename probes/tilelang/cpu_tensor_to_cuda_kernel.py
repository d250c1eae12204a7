# /// probe
# asks = "Does a CUDA kernel that gets a CPU tensor name the devices in its error?"
# means = "The error says which device was expected and which came: the host array given to a GPU function."
# met = "the TVM notes, error 2 (host array given to a GPU function)"
# truth = "The tensors were on the CPU: move them to the GPU. 0.1.15 names the right device, and swaps the two numbers after it."
# requires = ["tilelang"]
# needs = ["nvcc"]
# [[expect]]
# versions = ["tilelang==0.1.10"]
# verdict = "fails"
# match = 'ffi\.Function returned NULL'
# [[expect]]
# verdict = "works"
# ///
import tilelang
import tilelang.language as T
import torch
from tilelang import tvm


@T.prim_func
def main(a: T.Tensor((64,), "float32"), b: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64) as _:
        for i in T.Parallel(64):
            b[i] = a[i] + 1.0


target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
with target:
    kernel = tilelang.compile(main, target=target, execution_backend="tvm_ffi")
try:
    kernel(torch.zeros(64), torch.zeros(64))
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    if "expected cuda" not in str(error):
        raise
else:
    raise AssertionError("a CUDA kernel took CPU tensors")
