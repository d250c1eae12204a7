# /// probe
# asks = "Does a kernel that is bound to GPU threads say so if it is compiled for a CPU?"
# means = "The error names the thread binding."
# met = "the TVM notes, read as 'no GPU'"
# truth = "Thread-bound code was sent to a CPU target. A GPU would not have helped."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = "Unknown device id in current IR|InternalError: not implemented"
# ///
import tvm
from tvm.script import tirx as T


@T.prim_func
def main(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")):
    tx = T.launch_thread("threadIdx.x", 64)
    b[tx] = a[tx] + T.float32(1)


tvm.compile(main, target="llvm")
