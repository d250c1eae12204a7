# /// probe
# asks = "Does the interpreter work with the NumPy in its environment?"
# means = "The pin of NumPy fits."
# met = "our own matrix on the CPU"
# truth = "Triton 3.6's interpreter turns an array of one element into a number, and NumPy 2.4 refuses that. Pin numpy<2.4."
# requires = ["triton", "torch", "numpy"]
# [[expect]]
# versions = ["triton<3.7", "numpy>=2.4"]
# verdict = "fails"
# match = "only 0-dimensional arrays can be converted|only length-1 arrays"
# [[expect]]
# verdict = "works"
# ///
import os

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton
import triton.language as tl


@triton.jit
def total(a, b, n):
    s = 0.0
    for start in range(0, n, 16):
        s += tl.sum(tl.load(a + start + tl.arange(0, 16)))
    tl.store(b, s)


a, b = torch.arange(64, dtype=torch.float32), torch.zeros(1)
total[(1,)](a, b, 64)
assert b.item() == 2016.0, b.item()
