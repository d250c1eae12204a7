# /// probe
# asks = "Is a NaN still a NaN after the cast from fp32 to bf16?"
# means = "All NaN patterns survive the cast on the CPU."
# met = "our own kernels: NaN inputs that came out as zero"
# truth = "The cast adds its rounding term before it cuts: 0x7FFFFFFF and 0xFFFFFFFF overflow into zero with a sign."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = "NaN became"
# ///
import numpy as np
import tvm
from tvm.script import tirx as T


@T.prim_func
def main(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "bfloat16")):
    for i in range(4):
        b[i] = T.Cast("bfloat16", a[i])


patterns = np.array([0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF], "uint32")
kernel = tvm.compile(main, target="llvm")
import ml_dtypes

got = tvm.runtime.tensor(np.zeros(4, ml_dtypes.bfloat16))
kernel(tvm.runtime.tensor(patterns.view("float32")), got)
bits = got.numpy().view("uint16")
wrong = [f"{p:#010x} -> {b:#06x}" for p, b in zip(patterns, bits) if not (b & 0x7F80 == 0x7F80 and b & 0x7F)]
assert not wrong, f"a NaN became a number: {', '.join(wrong)}"
