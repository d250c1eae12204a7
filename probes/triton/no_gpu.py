# /// probe
# asks = "Does a launch without a GPU say that there is no GPU?"
# means = "The error names the missing driver."
# met = "every machine without a GPU"
# truth = "There is no driver to launch on. TRITON_INTERPRET=1 runs without one, and triton.compile compiles without one."
# requires = ["triton", "torch"]
# [[expect]]
# verdict = "works"
# ///
import torch
import triton
import triton.language as tl


@triton.jit
def add(a, b):
    i = tl.arange(0, 64)
    tl.store(b + i, tl.load(a + i) + 1.0)


try:
    add[(1,)](torch.zeros(64), torch.zeros(64))
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    assert "driver" in str(error) or "cpu tensor" in str(error).lower(), error
else:
    raise AssertionError("a kernel ran on CPU tensors without an interpreter")
