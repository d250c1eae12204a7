# /// probe
# asks = "Can a kernel be defined from a string, with exec?"
# means = "T.prim_func does not need the function's source file."
# met = "generated kernels"
# truth = "tilelang parses the language from the source text, so the function must be in a file (or in linecache)."
# requires = ["tilelang"]
# [[expect]]
# verdict = "fails"
# match = "could not get source code|source code not available"
# ///
import tilelang.language as T

exec(
    "@T.prim_func\n"
    "def main(a: T.Tensor((64,), 'float32')):\n"
    "    with T.Kernel(1, threads=64) as _:\n"
    "        a[0] = 1.0\n",
    {"T": T},
)
