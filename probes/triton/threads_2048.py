# /// probe
# asks = "Does triton.compile refuse 2048 threads in a block?"
# means = "A compilation that succeeds can be launched."
# met = "our own matrix, compiling without a GPU"
# truth = "triton.compile checks no limit of the device; only the launch does. Check num_warps yourself if nothing will be launched."
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
def add(a, b):
    i = tl.arange(0, 4096)
    tl.store(b + i, tl.load(a + i) + 1.0)


source = ASTSource(add, signature={"a": "*fp32", "b": "*fp32"})
try:
    triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 64})
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    assert "warp" in str(error) or "thread" in str(error), error
else:
    raise AssertionError("it compiled: 64 warps are 2048 threads in a block that has 1024")
