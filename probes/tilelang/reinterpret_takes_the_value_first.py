# /// probe
# asks = "Does T.reinterpret take (value, dtype)?"
# means = "Code written for today's order of arguments lowers."
# met = "our own CPU kernels"
# truth = "It does in every version from 0.1.8 on. The other order, (dtype, value), is accepted too, so no version needs a switch."
# requires = ["tilelang"]
# [[expect]]
# verdict = "works"
# ///
import tilelang
import tilelang.language as T
from tilelang import tvm


@T.prim_func
def main(a: T.Tensor((64,), "uint32"), b: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64) as _:
        for i in T.serial(64):
            b[i] = T.reinterpret(a[i], "float32")


target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
with target:
    source = tilelang.lower(main, target=target).kernel_source
print(source)
assert "float" in source.split("b[", 1)[1], "the bits were not taken as float"
