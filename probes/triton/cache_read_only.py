# /// probe
# asks = "Does triton.compile work where its cache takes no file?"
# means = "A full disk or a read-only home, such as a container's, does not keep kernels from running."
# met = "a case with a read-only cache"
# truth = "It does not: what it made is lost with an OSError. Name a folder that can be written in TRITON_CACHE_DIR."
# requires = ["triton>=3.6"]
# [[expect]]
# verdict = "fails"
# match = "NotADirectoryError"
# ///
import os
import tempfile

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

os.environ["TRITON_CACHE_DIR"] = f"{tempfile.mkstemp()[1]}/below/a/file"  # root too cannot make this


@triton.jit
def add(a, b):
    i = tl.arange(0, 64)
    tl.store(b + i, tl.load(a + i) + 1.0)


triton.compile(ASTSource(add, signature={"a": "*fp32", "b": "*fp32"}), target=GPUTarget("cuda", 90, 32))
