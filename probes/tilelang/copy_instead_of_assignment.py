# /// probe
# asks = "Does T.copy compile in place of an assignment through several indices?"
# means = "The work-around that the first documents tried is sound, and it was not needed."
# met = "the first documents, as a work-around"
# truth = "It compiles in every version, as the assignment does. Both failed there for the reason in jit_stacked_on_prim_func."
# requires = ["tilelang"]
# [[expect]]
# verdict = "works"
# ///
import tilelang
import tilelang.language as T
from tilelang import tvm


@T.prim_func
def main(h: T.Tensor((2, 8, 16, 16), "float32"), h_res: T.Tensor((2, 8, 16, 16), "float32")):
    with T.Kernel(2, 8, threads=32) as (b, s):
        local = T.alloc_fragment((16, 16), "float32")
        T.copy(h[b, s, 0:16, 0:16], local)
        T.copy(local, h_res[b, s, 0:16, 0:16])


target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
with target:
    source = tilelang.lower(main, target=target).kernel_source
assert "h_res" in source, source
