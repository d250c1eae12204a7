# /// probe
# asks = "Does the interpreter round fp32 to the nearest bf16?"
# means = "Its bf16 results have the same bits as a GPU's."
# met = "our own matrix on the CPU"
# platforms = ["cpu-llvm"]
# truth = "The interpreter cuts the low half off. Hardware rounds to nearest even."
# requires = ["triton", "torch"]
# [[expect]]
# verdict = "fails"
# match = "not rounded"
# ///
import os

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton
import triton.language as tl


@triton.jit
def cast(a, b):
    i = tl.arange(0, 64)
    tl.store(b + i, tl.load(a + i).to(tl.bfloat16))


torch.manual_seed(0)
a, b = torch.randn(64), torch.zeros(64, dtype=torch.bfloat16)
cast[(1,)](a, b)
wrong = int((b != a.bfloat16()).sum())
assert not wrong, f"{wrong} of 64 values are not rounded to nearest"
