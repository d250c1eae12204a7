# /// probe
# asks = "Is tl.dot of bf16 right under the interpreter?"
# means = "What TRITON_INTERPRET=1 computes in bf16 is a proof."
# met = "our own matrix on the CPU: errors of 1e11"
# platforms = ["cpu-llvm"]
# truth = "The interpreter multiplies the bits of bf16 as if they were integers. Cast to fp32 there, or do not count the result."
# requires = ["triton", "torch"]
# [[expect]]
# verdict = "fails"
# match = "off by"
# ///
import os

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton
import triton.language as tl


@triton.jit
def dot(a, b, c):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))


torch.manual_seed(0)
a, b = torch.randn(16, 16).bfloat16(), torch.randn(16, 16).bfloat16()
c = torch.zeros(16, 16)
dot[(1,)](a, b, c)
error = (c - a.float() @ b.float()).abs().max().item()
assert error < 1e-3, f"tl.dot of bf16 is off by {error:.3g}"
