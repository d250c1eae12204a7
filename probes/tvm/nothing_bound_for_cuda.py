# /// probe
# asks = "Is a CUDA function refused if nothing in it is bound to threads?"
# means = "A CUDA build always holds device code."
# met = "our own matrix: a CUDA build without device code"
# truth = "TVM compiles it for the host only and says nothing: a build for CUDA that has no kernel. Look at the imports of the module."
# requires = ["apache-tvm"]
# [[expect]]
# versions = ["apache-tvm<0.26"]
# verdict = "works"
# [[expect]]
# verdict = "fails"
# match = "no device code"
# ///
import tvm
from tvm.script import tirx as T


@T.prim_func
def main(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")):
    for i in range(64):
        b[i] = a[i] + T.float32(1)


try:
    module = tvm.compile(main, target=tvm.target.Target({"kind": "cuda", "arch": "sm_90"}, host="llvm"))
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    assert "thread" in str(error) or "host" in str(error), error
else:
    imports = (module.mod if hasattr(module, "mod") else module).imports
    assert any("__global__" in part.inspect_source() for part in imports), "it compiled, and there is no device code"
