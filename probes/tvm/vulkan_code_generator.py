# /// probe
# asks = "Does the wheel of TVM generate SPIR-V for Vulkan?"
# means = "A kernel becomes SPIR-V with no GPU on the machine."
# met = "the search for a way to WebGPU"
# platforms = ["webgpu"]
# truth = "The wheel is built without the generator for Vulkan. WGSL goes to Vulkan all the same, through wgpu."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = 'Cannot find global function target\.build\.vulkan'
# ///
import tvm
from tvm.script import tirx as T
from tvm.target import Target


@T.prim_func
def main(a: T.Buffer((64,), "float32")):
    thread = T.launch_thread("threadIdx.x", 64)
    a[thread] = a[thread] + T.float32(1)


tvm.compile(main, target=Target({"kind": "vulkan"}, host={"kind": "llvm"}))
