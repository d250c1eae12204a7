# /// probe
# asks = "Is a block of 2048 threads refused?"
# means = "tvm.compile knows the limit of 1024."
# met = "the TVM notes, error 4 (more than 1024 threads)"
# truth = "tvm.compile accepts any number, and the launch fails with an invalid value. verify_gpu_code tells you before."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = "it compiled"
# ///
import tvm
from tvm.script import tirx as T


@T.prim_func
def main(a: T.Buffer((2048,), "float32"), b: T.Buffer((2048,), "float32")):
    tx = T.launch_thread("threadIdx.x", 2048)
    b[tx] = a[tx] + T.float32(1)


try:
    tvm.compile(main, target=tvm.target.Target({"kind": "cuda", "arch": "sm_90"}, host="llvm"))
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    assert "thread" in str(error), error
else:
    raise AssertionError("it compiled: 2048 threads in a block that has 1024")
