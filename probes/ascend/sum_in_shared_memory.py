# /// probe
# asks = "Can a thread of a vector function add up a sum in the core's memory, where not all threads of a warp have one?"
# means = "A kernel for Ascend may keep sums in tiles."
# met = "our own gradient of expand, with 77 columns for 128 threads"
# platforms = ["ascend"]
# truth = "TileLang takes each step for a hazard and wants a barrier that all threads of a warp reach. A local sum has none."
# requires = ["tilelang>=0.1.15"]
# [[expect]]
# verdict = "fails"
# match = "Cannot lower a required shared-memory sync inside the then branch"
# ///
import tilelang
import tilelang.ascend.language as T
from tilelang import tvm


@T.prim_func
def total(x: T.Tensor((3, 77), "bfloat16"), out: T.Tensor((77,), "float32")):
    with T.Kernel(1) as _:
        tile = T.alloc_shared((3, 77), "bfloat16")
        sums = T.alloc_shared((77,), "float32")
        T.copy(x, tile)
        with T.SimtVF(threads=128):
            for d in T.Parallel(77):
                sums[d] = T.float32(0)
                for i in T.serial(3):
                    sums[d] = sums[d] + T.cast(tile[i, d], "float32")
        T.copy(sums, out)


target = tvm.target.Target({"kind": "ascend"})
with target:
    tilelang.lower(total, target=target)
