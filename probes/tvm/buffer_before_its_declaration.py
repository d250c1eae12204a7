# /// probe
# asks = "Does T.Buffer(..., scope='shared') inside a kernel make shared memory?"
# means = "The buffer is allocated where it is named."
# met = "the first documents: Load/Store of buffer vecX_shared occurred before its declaration (llvm)"
# truth = "T.Buffer names a view and allocates nothing, so this is wrong on every target. Use T.alloc_buffer. LLVM was not the cause."
# requires = ["apache-tvm"]
# [[expect]]
# versions = ["apache-tvm<0.26"]
# verdict = "fails"
# match = "buffer vecX_shared_ptr .* occurred before its declaration"
# [[expect]]
# versions = ["apache-tvm>=0.27"]
# verdict = "fails"
# match = "buffer vecX_shared is used at .* without a prior DeclBuffer"
# [[expect]]
# verdict = "fails"
# match = "vecX_shared is used before its definition"
# ///
import sys

import tvm
from tvm.script import tirx as T


sys.excepthook = sys.__excepthook__  # TVM 0.27 puts one of its own there, which says nothing of such an error


@T.prim_func
def main(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")):
    vecX_shared = T.Buffer((64,), "float32", scope="shared")
    for i in range(64):
        vecX_shared[i] = a[i]
    for i in range(64):
        b[i] = vecX_shared[i]


tvm.compile(main, target="llvm")
