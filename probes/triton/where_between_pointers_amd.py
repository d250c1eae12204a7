# /// probe
# asks = "Does tl.where between two pointers compile for AMD?"
# means = "A kernel may choose its buffer per element."
# met = "our own expand kernel for gfx942"
# platforms = ["rocm"]
# truth = "The AMD backend's pointer passes (ConvertToBufferOps, TritonAMDGPUCanonicalizePointers) cannot follow a select of pointers. Choose between the offsets, or load both."
# requires = ["triton>=3.5"]
# [[expect]]
# versions = ["triton>=3.6,<3.8"]
# verdict = "fails"
# match = "ConvertToBufferOps|TritonAMDGPUCanonicalizePointers"
# [[expect]]
# verdict = "works"
# ///
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def choose(a, b, out):
    i = tl.arange(0, 64)
    tl.store(out + i, tl.load(tl.where(i < 32, a + i, b + i)))


signature = {"a": "*fp32", "b": "*fp32", "out": "*fp32"}
attributes = {(index,): [["tt.divisibility", 16], ["tt.pointer_range", 32]] for index in range(3)}
source = ASTSource(choose, signature=signature, attrs=attributes)
assert triton.compile(source, target=GPUTarget("hip", "gfx942", 64)).asm["hsaco"]
