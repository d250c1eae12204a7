# /// probe
# asks = "Does T.reinterpret take (value, dtype)?"
# means = "Code written for today's order of arguments lowers."
# met = "our own CPU kernels"
# truth = "The arguments changed places in 0.1.10; before, it was (dtype, value)."
# requires = ["tilelang"]
# [[expect]]
# versions = ["tilelang<0.1.10"]
# verdict = "fails"
# match = "."
# [[expect]]
# verdict = "works"
# ///
import tilelang.language as T


@T.prim_func
def main(a: T.Tensor((64,), "uint32"), b: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64) as _:
        for i in T.serial(64):
            b[i] = T.reinterpret(a[i], "float32")


assert "reinterpret" in main.script()
