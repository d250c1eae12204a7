# /// probe
# asks = "Can a loop over a vector of fixed length be compiled for RISC-V with the extension V?"
# means = "A script with T.vectorized needs no other form for RISC-V."
# met = "our own kernels: mhc_pre in bf16 and sinkhorn, for rv64gcv"
# platforms = ["cpu-llvm"]
# truth = "Some cannot with +v: TVM makes vectors of unknown length out of them. The same instructions by their other name, +zve64d and +zvl128b, can."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = "with [+]v: .*Cannot match type float32xvscalex4"
# ///
import tvm
from tvm.script import tirx as T
from tvm.target import Target


@T.prim_func
def main(x: T.Buffer((32,), "bfloat16"), sums: T.Buffer((4,), "float32")):
    v = T.alloc_buffer((32,), "float32")
    acc = T.alloc_buffer((4,), "float32")
    for j in T.vectorized(4):
        acc[j] = T.float32(0)
    for k in range(8):
        for j in T.vectorized(4):
            v[k * 4 + j] = T.Cast("float32", x[k * 4 + j])
        for j in T.vectorized(4):
            acc[j] = acc[j] + v[k * 4 + j] * v[k * 4 + j]
    for j in T.vectorized(4):
        sums[j] = acc[j]


def compile_with(*features: str) -> None:
    target = {"kind": "llvm", "mtriple": "riscv64-linux-gnu", "mcpu": "generic-rv64", "mabi": "lp64d"}
    tvm.compile(main, target=Target({**target, "mattr": ["+m", "+a", "+f", "+d", "+c", *features]}))


compile_with("+zve64d", "+zvl128b")
try:
    compile_with("+v")
except Exception as error:
    raise AssertionError(f"with +v: {str(error)[-300:]}") from None
