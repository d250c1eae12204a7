# /// probe
# asks = "Does T.Buffer(..., scope='shared') inside a kernel make shared memory?"
# means = "The buffer is allocated where it is named."
# met = "the first documents: Load/Store of buffer vecX_shared occurred before its declaration (llvm)"
# truth = "T.Buffer names a view and allocates nothing, wrong on every target; use T.alloc_buffer. LLVM was not at fault."
# requires = ["apache-tvm"]
# [[expect]]
# versions = ["apache-tvm<0.26"]
# verdict = "fails"
# match = "occurred before its declaration|used before its definition|undefined"
# [[expect]]
# verdict = "fails"
# match = "vecX_shared is used before its definition"
# ///
import tvm
from tvm.script import tirx as T


@T.prim_func
def main(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")):
    vecX_shared = T.Buffer((64,), "float32", scope="shared")
    for i in range(64):
        vecX_shared[i] = a[i]
    for i in range(64):
        b[i] = vecX_shared[i]


tvm.compile(main, target="llvm")
