# /// probe
# asks = "Does WGSL allow the name that TVM gives a loop variable called '_'?"
# means = "No name in the source begins with two underscores."
# met = "our own matrix, platform webgpu"
# platforms = ["webgpu"]
# truth = "TVM writes `__1` for Python's `_`, and WGSL keeps names that begin with two underscores for itself. Another name in the script, or in the text, is enough."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = "AssertionError: reserved in WGSL: __1"
# ///
import re

import tvm
from tvm.script import tirx as T
from tvm.target import Target


@T.prim_func
def main(a: T.Buffer((64,), "float32")):
    thread = T.launch_thread("threadIdx.x", 64)
    total = T.alloc_buffer((1,), "float32", scope="local")
    total[0] = T.float32(0)
    for _ in range(19):
        total[0] = total[0] + a[thread]
    a[thread] = total[0]


module = tvm.compile(main, target=Target({"kind": "webgpu"}, host={"kind": "llvm"})).mod
names = set(re.findall(r"\b__\w+", module.imports[0].inspect_source()))
assert not names, f"reserved in WGSL: {', '.join(sorted(names))}"
