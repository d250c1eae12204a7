# /// probe
# asks = "Does the C target compute a running maximum in an explicitly unrolled loop?"
# means = "s = T.max(s, x) sees the last iteration's s."
# met = "our own Sinkhorn kernel: wrong numbers, no error"
# platforms = ["cpu-llvm"]
# truth = "The C generator stores the first operand in a variable before the unrolled loop and never updates it. Swap the operands, or do not unroll."
# requires = ["tilelang"]
# needs = ["g++"]
# [[expect]]
# verdict = "fails"
# match = "the maximum is \\d+"
# ///
import inspect

import tilelang
import torch
from tilelang import tvm

try:
    import tilelang.cpu.language as T
except ImportError:
    import tilelang.language as T

LAUNCH = {"is_cpu": True} if "is_cpu" in inspect.signature(T.Kernel).parameters else {}


@T.prim_func
def main(a: T.Tensor((4,), "float32"), b: T.Tensor((1,), "float32")):
    with T.Kernel(1, **LAUNCH) as _:
        s = T.alloc_local((1,), "float32")
        s[0] = a[0]
        for i in T.unroll(3, explicit=True):
            s[0] = T.max(s[0], a[i + 1])
        b[0] = s[0]


target = tvm.target.Target({"kind": "c"})
with target:
    kernel = tilelang.compile(main, target=target, execution_backend="cython")
print(kernel.get_kernel_source())
a, b = torch.tensor([1.0, 4.0, 3.0, 2.0]), torch.zeros(1)
kernel(a, b)
assert b.item() == 4.0, f"the maximum is {b.item():g} and not 4"
