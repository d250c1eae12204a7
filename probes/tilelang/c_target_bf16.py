# /// probe
# asks = "Does the C target have bfloat16?"
# means = "A bf16 buffer compiles for the CPU."
# met = "our own CPU kernels"
# platforms = ["cpu-llvm"]
# truth = "The C generator has no such type. Carry uint16 and shift."
# requires = ["tilelang"]
# [[expect]]
# verdict = "fails"
# match = "Cannot convert type bfloat16 to C type"
# ///
import inspect

import tilelang
from tilelang import tvm

try:
    import tilelang.cpu.language as T
except ImportError:
    import tilelang.language as T

LAUNCH = {"is_cpu": True} if "is_cpu" in inspect.signature(T.Kernel).parameters else {}


@T.prim_func
def main(a: T.Tensor((4,), "bfloat16"), b: T.Tensor((4,), "bfloat16")):
    with T.Kernel(1, **LAUNCH) as _:
        for i in T.serial(4):
            b[i] = a[i]


target = tvm.target.Target({"kind": "c"})
with target:
    assert tilelang.lower(main, target=target).kernel_source
