# /// probe
# asks = "Does WGSL allow the name that TileLang gives a loop variable called '_'?"
# means = "No name in the source begins with two underscores."
# met = "our own matrix, platform webgpu"
# platforms = ["webgpu"]
# truth = "TileLang writes `__1` for Python's `_`, and WGSL keeps names that begin with two underscores for itself. Another name in the kernel, or in the text, is enough."
# requires = ["tilelang"]
# [[expect]]
# verdict = "fails"
# match = "AssertionError: reserved in WGSL: __1"
# ///
import re

import tilelang
import tilelang.language as T
from tilelang import tvm


@T.prim_func
def main(a: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64) as _:
        thread = T.get_thread_binding()
        total = T.alloc_local((1,), "float32")
        total[0] = T.float32(0)
        for _ in T.serial(19):
            total[0] = total[0] + a[thread]
        a[thread] = total[0]


target = tvm.target.Target({"kind": "webgpu"})
with target:
    names = set(re.findall(r"\b__\w+", tilelang.lower(main, target=target).kernel_source))
assert not names, f"reserved in WGSL: {', '.join(sorted(names))}"
