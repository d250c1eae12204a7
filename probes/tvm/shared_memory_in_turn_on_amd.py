# /// probe
# asks = "On AMD's GPUs, do two shared buffers that are used one after the other stay in shared memory?"
# means = "A kernel may have a second shared buffer once it no longer needs the first."
# met = "our own kernels for gfx942 and gfx1100, in the emulator of AMD's machine code"
# platforms = ["rocm"]
# truth = "The pass StorageRewrite gives both the same memory, and TVM casts the second pointer from address space 3 to 1, which means nothing: the code writes to global memory, here over the input. PassContext(config={'tirx.disable_storage_rewrite': True}) is a way round."
# requires = ["apache-tvm"]
# [[expect]]
# versions = ["apache-tvm==0.27.*"]
# verdict = "fails"
# match = "a shared buffer is written by global_store"
# ///
import tvm
from tvm.script import tirx as T


@T.prim_func
def main(a: T.Buffer((256,), "float32"), b: T.Buffer((256,), "float32")):
    tx = T.launch_thread("threadIdx.x", 256)
    first = T.alloc_buffer((256,), "float32", scope="shared")
    second = T.alloc_buffer((256,), "float32", scope="shared")
    first[tx] = a[tx]
    T.tvm_storage_sync("shared")
    b[tx] = first[255 - tx]
    T.tvm_storage_sync("shared")
    second[tx] = b[tx] + T.float32(1)
    T.tvm_storage_sync("shared")
    b[tx] = second[255 - tx]


# Else TVM asks for a ROCm, to link the code.
tvm.register_global_func("tvm_callback_rocm_bitcode_path", lambda *_: [], override=True)
tvm.register_global_func("tvm_callback_rocm_link", lambda code: code, override=True)
target = tvm.target.Target({"kind": "rocm", "mcpu": "gfx942"}, host={"kind": "c"})
module = tvm.compile(main, target=target).mod.imports[0]
assembly = module.inspect_source("asm")
print(assembly[assembly.index("main_kernel:") : assembly.index("s_endpgm")])
casts = [line for line in module.inspect_source().splitlines() if "addrspacecast (ptr addrspace(3)" in line]
print(*casts, sep="\n")
assert not casts, "a shared buffer is written by global_store: its pointer was cast to global memory"
