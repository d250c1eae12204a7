# /// probe
# asks = "Does the wheel of TileLang compile its AscendC?"
# means = "A cell of Ascend 950 can be compiled, and not only lowered."
# met = "our own matrix, platform ascend"
# platforms = ["ascend"]
# truth = "It writes AscendC. The compiler, bisheng, is in Huawei's CANN toolkit alone."
# requires = ["tilelang>=0.1.15"]
# [[expect]]
# verdict = "fails"
# match = "Cannot find the bisheng compiler"
# ///
import tilelang
import tilelang.ascend.language as T
from tilelang import tvm


@T.prim_func
def double(x: T.Tensor((64,), "float32"), out: T.Tensor((64,), "float32")):
    with T.Kernel(1) as _:
        tile = T.alloc_shared((64,), "float32")
        T.copy(x, tile)
        with T.SimtVF(threads=64):
            for i in T.Parallel(64):
                tile[i] = tile[i] * T.float32(2)
        T.copy(tile, out)


tilelang.compile(double, target=tvm.target.Target({"kind": "ascend"}))
