# /// probe
# asks = "Does standard TVM's wheel have LLVM?"
# means = "target='llvm' compiles and runs."
# met = "the TVM notes, error 7 (no LLVM)"
# truth = "The published wheel brings its own LLVM and needs a C++ compiler only to link. TileLang's TVM has no LLVM."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "works"
# ///
import numpy as np
import tvm
from tvm.script import tirx as T


@T.prim_func
def main(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")):
    for i in range(64):
        b[i] = a[i] + T.float32(1)


kernel = tvm.compile(main, target="llvm")
given, got = tvm.runtime.tensor(np.arange(64, dtype="float32")), tvm.runtime.tensor(np.zeros(64, "float32"))
kernel(given, got)
assert (got.numpy() == np.arange(64) + 1).all()
