# /// probe
# asks = "Does tvm.compile for ROCm work if no ROCm is on the machine?"
# means = "AMDGPU machine code comes from the wheel alone."
# met = "our own matrix, platform rocm"
# platforms = ["rocm"]
# truth = "It needs device bitcode and ld.lld from a ROCm installation. If you override tvm_callback_rocm_bitcode_path and tvm_callback_rocm_link, it needs neither."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = "could not find bitcode"
# ///
import os

os.environ |= {"PATH": "/nowhere", "ROCM_PATH": "/nowhere"}

import tvm
from tvm.script import tirx as T


@T.prim_func
def main(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")):
    tx = T.launch_thread("threadIdx.x", 64)
    b[tx] = a[tx] + T.float32(1)


tvm.compile(main, target=tvm.target.Target({"kind": "rocm", "mcpu": "gfx942"}, host="llvm"))
