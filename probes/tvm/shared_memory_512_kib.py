# /// probe
# asks = "Is a block with 512 KiB of shared memory refused?"
# means = "tvm.compile knows that no GPU has that much."
# met = "the TVM notes, error 3 (more than 48 KB of shared memory)"
# truth = "tvm.compile accepts any amount. nvcc refuses more than 48 KB of static shared memory, and a launch refuses what the GPU does not have. verify_gpu_code tells you before."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = "it compiled"
# ///
import tvm
from tvm.script import tirx as T


@T.prim_func
def main(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")):
    tx = T.launch_thread("threadIdx.x", 64)
    large = T.alloc_buffer((131072,), "float32", scope="shared")
    large[tx] = a[tx]
    T.tvm_storage_sync("shared")
    b[tx] = large[63 - tx]


try:
    tvm.compile(main, target=tvm.target.Target({"kind": "cuda", "arch": "sm_90"}, host="llvm"))
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    assert "shared" in str(error), error
else:
    raise AssertionError("it compiled: 524288 bytes of shared memory in a block that has 49152")
