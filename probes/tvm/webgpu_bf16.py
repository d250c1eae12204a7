# /// probe
# asks = "Does TVM generate WGSL for bf16?"
# means = "The source has no type that WGSL lacks."
# met = "our own matrix, platform webgpu"
# platforms = ["webgpu"]
# truth = "TVM keeps bf16 in `u16`, which WGSL does not have. Words of 32 bits with two elements each do it: src/mhc/toolchain/wgsl.py."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = "AssertionError: WGSL has no u16"
# ///
import tvm
from tvm.script import tirx as T
from tvm.target import Target


@T.prim_func
def main(a: T.Buffer((64,), "bfloat16"), b: T.Buffer((64,), "float32")):
    thread = T.launch_thread("threadIdx.x", 64)
    b[thread] = T.Cast("float32", a[thread])


module = tvm.compile(main, target=Target({"kind": "webgpu"}, host={"kind": "llvm"})).mod
assert "u16" not in module.imports[0].inspect_source(), "WGSL has no u16"
