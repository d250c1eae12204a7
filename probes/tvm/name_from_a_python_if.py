# /// probe
# asks = "Does a name that a script gives under a Python `if` live on after it?"
# means = "One script serves with and without an optional tensor."
# met = "our own mhc_pre with gamma, in TVM 0.25"
# truth = "TVM 0.25 keeps a branch's names to the branch, also where Python decides the `if`: bind the name outside of it."
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
