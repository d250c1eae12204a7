# /// probe
# asks = "May @tilelang.jit stand on top of @T.prim_func?"
# means = "A finished prim_func is accepted by tilelang.jit, or refused with a message that says so."
# met = "the first documents, 'TileLang eager JIT bug'"
# truth = "A finished prim_func was given to tilelang.jit. Python's inspect.signature quotes the whole script, and its last line is an innocent assignment."
# requires = ["tilelang"]
# [[expect]]
# versions = ["tilelang==0.1.9"]
# verdict = "fails"
# match = "is not a callable object"
# [[expect]]
# verdict = "fails"
# match = 'h_res\[\w+, \w+, i, j\] = h_res_local\[i, j\] is not a callable object'
# ///
import tilelang
import tilelang.language as T


@tilelang.jit
@T.prim_func
def main(h_res: T.Tensor((2, 8, 4, 4), "float32")):
    with T.Kernel(2, 8, threads=32) as (b_idx, s_idx):
        h_res_local = T.alloc_local((4, 4), "float32")
        for i, j in T.grid(4, 4):
            h_res_local[i, j] = 1.0
        for i, j in T.grid(4, 4):
            h_res[b_idx, s_idx, i, j] = h_res_local[i, j]


main.compile()
