# /// probe
# asks = "Does triton.compile refuse more shared memory than the architecture has?"
# means = "A compilation that succeeds can be launched."
# met = "our own matrix, compiling without a GPU"
# platforms = ["cuda"]
# truth = "triton.compile does not compare metadata.shared with the device. Only the launch does (OutOfResources)."
# requires = ["triton"]
# [[expect]]
# verdict = "fails"
# match = "it compiled"
# ///
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def product(a, b, c):
    i, k = tl.arange(0, 128), tl.arange(0, 512)
    left = tl.load(a + i[:, None] * 512 + k[None, :])
    right = tl.load(b + k[:, None] * 128 + i[None, :])
    tl.store(c + i[:, None] * 128 + i[None, :], tl.dot(left, right))


source = ASTSource(product, signature={"a": "*fp16", "b": "*fp16", "c": "*fp32"})
made = triton.compile(source, target=GPUTarget("cuda", 90, 32))
limit = 232448
assert made.metadata.shared <= limit, f"it compiled: {made.metadata.shared} bytes of shared memory, of {limit}"
