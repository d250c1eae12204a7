# /// probe
# asks = "Can a kernel of triton-ascend collect tensors in a tuple?"
# means = "The Triton kernels for GPUs, which keep streams in tuples, need no other form for Ascend."
# met = "our own mhc_post for GPUs, lowered for an Ascend 910B"
# platforms = ["ascend"]
# truth = "triton-ascend 3.2.0 is Triton 3.2, which has no tuples: the name is not even defined. Kernels of its own take tiles."
# requires = ["triton-ascend"]
# [[expect]]
# verdict = "fails"
# match = "NameError\\('streams is not defined'\\)"
# ///
import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.ascend import compiler as ascend
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add(x, out):
    i = tl.arange(0, 64)
    streams = ()
    for j in tl.static_range(2):
        streams = streams + (tl.load(x + 64 * j + i),)
    tl.store(out + i, streams[0] + streams[1])


backend = ascend.AscendBackend(GPUTarget("npu", "Ascend910B2", 0))
context = ir.context()
ir.load_dialects(context)
source = ASTSource(add, {"x": "*fp32", "out": "*fp32"}, {})
options = backend.parse_options({})
source.make_ir(options, backend.get_codegen_implementation(), backend.get_module_map(), context)
