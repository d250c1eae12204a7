# /// probe
# asks = "If one kernel binds threadIdx.x to 64 and to 4, is it refused or made right?"
# means = "Either an error says so, or the narrower loop is guarded: no out-of-bounds access."
# met = "the TVM notes, error 1 (domain inferred twice), and silent today"
# truth = "The old TVM refused it (domain already inferred). Today's TVM takes the first extent for both, and the narrower loop runs out of bounds. UnifyThreadBinding refuses it."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = "unguarded"
# ///
import re

import tvm
from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def main(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32"), c: T.Buffer((4,), "float32")):
    for _ in T.thread_binding(1, thread="blockIdx.x"):
        for t in T.thread_binding(64, thread="threadIdx.x"):
            b[t] = a[t] + T.float32(1)
        for t in T.thread_binding(4, thread="threadIdx.x"):
            c[t] = b[t]


try:
    module = tvm.compile(main, target=tvm.target.Target({"kind": "cuda", "arch": "sm_90"}, host="llvm"))
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    assert "extent" in str(error) or "thread" in str(error), error
else:
    source = module.mod.imports[0].inspect_source() if hasattr(module, "mod") else module.imports[0].inspect_source()
    print(source)
    kernels = source.count('extern "C" __global__')
    guarded = re.search(r"if \(.*threadIdx\.x.*< 4\)", source)
    assert guarded or kernels > 2, f"unguarded: {kernels} kernel(s) in which 64 threads write 4 elements"
