# /// probe
# asks = "Does an assignment through several indices compile?"
# means = "out[b, s, i, j] = local[i, j] becomes CUDA source, so a failure that quotes such a line has another cause."
# met = "the first documents, 'TileLang eager JIT bug', for which TileLang was given up"
# truth = "The assignment was never the fault: it compiles in every version. The message quotes the last line of a script; see jit_stacked_on_prim_func."
# requires = ["tilelang"]
# [[expect]]
# verdict = "works"
# ///
import tilelang
import tilelang.language as T
from tilelang import tvm


@T.prim_func
def main(h: T.Tensor((2, 8, 4, 4), "float32"), h_res: T.Tensor((2, 8, 4, 4), "float32")):
    with T.Kernel(2, 8, threads=32) as (b, s):
        local = T.alloc_local((4, 4), "float32")
        for i, j in T.grid(4, 4):
            local[i, j] = h[b, s, i, j]
        for i, j in T.grid(4, 4):
            h_res[b, s, i, j] = local[i, j]


target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
with target:
    source = tilelang.lower(main, target=target).kernel_source
assert "h_res" in source, source
