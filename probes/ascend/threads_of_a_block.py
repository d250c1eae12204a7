# /// probe
# asks = "Can a kernel of TileLang that has threads, as for a GPU, be lowered for Ascend?"
# means = "The TileLang kernels for GPUs need no other form for Ascend."
# met = "our own kernels for GPUs"
# platforms = ["ascend"]
# truth = "A core has no threads of its own: they are in vector functions (T.SimtVF) on tiles that were copied to the core."
# requires = ["tilelang>=0.1.15"]
# [[expect]]
# verdict = "fails"
# match = "has no SIMT threads"
# ///
import tilelang
import tilelang.language as T
from tilelang import tvm


@T.prim_func
def double(x: T.Tensor((64,), "float32"), out: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64) as _:
        thread = T.get_thread_binding()
        out[thread] = x[thread] * T.float32(2)


target = tvm.target.Target({"kind": "ascend"})
with target:
    tilelang.lower(double, target=target)
