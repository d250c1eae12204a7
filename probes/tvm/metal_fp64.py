# /// probe
# asks = "Does TVM generate Metal's language for a sum in fp64?"
# means = "The kernel becomes source, or the script is refused before code is generated."
# met = "our own matrix, platform metal"
# platforms = ["metal"]
# truth = "Metal has no fp64. Add up in fp32, with the terms in pairs or with a compensation."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = "Cannot convert type float64 to Metal type"
# ///
import tvm
from tvm.script import tirx as T
from tvm.target import Target


@T.prim_func
def main(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")):
    thread = T.launch_thread("threadIdx.x", 64)
    b[thread] = T.Cast("float32", T.Cast("float64", a[thread]) + T.float64(1))


tvm.compile(main, target=Target({"kind": "metal"}, host={"kind": "llvm"}))
