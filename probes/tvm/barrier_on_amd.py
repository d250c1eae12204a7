# /// probe
# asks = "On AMD's GPUs, does T.tvm_storage_sync wait for what the wave wrote to shared memory?"
# means = "A value in shared memory is there for the other waves behind the barrier."
# met = "our own kernels for gfx942 and gfx1100, in the emulator of AMD's machine code"
# platforms = ["rocm"]
# truth = "TVM writes s_barrier alone, with no fence. GPUs from gfx90a on do not wait at a barrier by themselves, so another wave may read too early. A lowering of tirx.tvm_storage_sync for rocm that has fences around the barrier is a way round."
# requires = ["apache-tvm"]
# [[expect]]
# versions = ["apache-tvm==0.27.*"]
# verdict = "fails"
# match = "s_barrier with no wait before it"
# ///
import re

import tvm
from tvm.script import tirx as T


@T.prim_func
def main(a: T.Buffer((256,), "float32"), b: T.Buffer((256,), "float32")):
    tx = T.launch_thread("threadIdx.x", 256)
    kept = T.alloc_buffer((256,), "float32", scope="shared")
    kept[tx] = a[tx]
    T.tvm_storage_sync("shared")
    b[tx] = kept[255 - tx]


# Else TVM asks for a ROCm, to link the code.
tvm.register_global_func("tvm_callback_rocm_bitcode_path", lambda *_: [], override=True)
tvm.register_global_func("tvm_callback_rocm_link", lambda code: code, override=True)
target = tvm.target.Target({"kind": "rocm", "mcpu": "gfx942"}, host={"kind": "c"})
assembly = tvm.compile(main, target=target).mod.imports[0].inspect_source("asm")
code = assembly[assembly.index("main_kernel:") : assembly.index("s_endpgm")]
print(code)
between = re.search(r"ds_write.*?s_barrier", code, re.DOTALL)
assert "s_waitcnt" in between[0], "the wave's write to shared memory is on its way: s_barrier with no wait before it"
