# /// probe
# asks = "Does TVM generate OpenCL C for bf16?"
# means = "The source has no type that OpenCL C lacks."
# met = "our own matrix, platforms opencl and intel"
# platforms = ["opencl", "intel"]
# truth = "OpenCL C has no bf16. TVM keeps it in `ushort` and widens its bits, so a device needs no extension for it; fp16 needs cl_khr_fp16."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "works"
# ///
import tvm
from tvm.script import tirx as T
from tvm.target import Target


@T.prim_func
def main(a: T.Buffer((64,), "bfloat16"), b: T.Buffer((64,), "float32")):
    thread = T.launch_thread("threadIdx.x", 64)
    b[thread] = T.Cast("float32", a[thread])


source = tvm.compile(main, target=Target({"kind": "opencl"}, host={"kind": "llvm"})).mod.imports[0].inspect_source()
assert "ushort* restrict a_ptr" in source and "bfloat" not in source, "the source has a type that OpenCL C lacks"
