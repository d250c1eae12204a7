# /// probe
# asks = "Does tvm.compile for CUDA fail if there is no nvcc?"
# means = "Its success proves that the kernel compiles."
# met = "our own matrix: a green compile on a machine without a CUDA toolkit"
# platforms = ["cuda"]
# truth = "Standard TVM compiles CUDA when the module is loaded, so success only proves that source was generated. To know more, compile the source with tvm.support.nvcc."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = "it succeeded without nvcc"
# ///
import os

os.environ |= {"PATH": "/nowhere", "CUDA_HOME": "/nowhere", "CUDA_PATH": "/nowhere"}

import tvm
from tvm.script import tirx as T


@T.prim_func
def main(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")):
    tx = T.launch_thread("threadIdx.x", 64)
    b[tx] = a[tx] + T.float32(1)


try:
    tvm.compile(main, target=tvm.target.Target({"kind": "cuda", "arch": "sm_90"}, host="llvm"))
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    if "nvcc" not in str(error):
        raise
else:
    raise AssertionError("it succeeded without nvcc: what it made holds source and no machine code")
