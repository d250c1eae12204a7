# /// probe
# asks = "Is a name that a script binds under a Python `if` still known after it?"
# means = "One script works with and without an optional tensor."
# met = "our own mhc_pre with gamma, in TVM 0.25"
# truth = "TVM 0.25 keeps the names of a branch inside the branch, even if Python decides the `if`. Bind the name outside the branch."
# requires = ["apache-tvm"]
# [[expect]]
# versions = ["apache-tvm<0.26"]
# verdict = "fails"
# match = "Undefined variable: scale"
# [[expect]]
# verdict = "works"
# ///
import sys

import tvm
from tvm.script import tirx as T


sys.excepthook = sys.__excepthook__  # TVM 0.27 puts one of its own there, which says nothing of such an error
scaled = True


@T.prim_func
def main(a: T.Buffer((64,), "float32"), scale_: T.handle):
    if scaled:
        scale = T.match_buffer(scale_, (1,), "float32")
    for i in range(64):
        if scaled:
            a[i] = a[i] * scale[0]


tvm.compile(main, target="llvm")
