# /// probe
# asks = "Does triton.compile make a kernel anew if the metadata in its cache are cut short?"
# means = "A machine that went down while Triton wrote does not break every later run."
# met = "a case with a damaged cache"
# truth = "Since 3.7 it does. Before, it read the JSON of the kernel without a check, and raised each time until the cache was deleted."
# requires = ["triton>=3.6"]
# [[expect]]
# versions = ["triton<3.7"]
# verdict = "fails"
# match = "JSONDecodeError"
# [[expect]]
# verdict = "works"
# ///
import os
import tempfile
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

os.environ["TRITON_CACHE_DIR"] = folder = tempfile.mkdtemp()


@triton.jit
def add(a, b):
    i = tl.arange(0, 64)
    tl.store(b + i, tl.load(a + i) + 1.0)


source = ASTSource(add, signature={"a": "*fp32", "b": "*fp32"})
made = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]
for file in Path(folder).rglob("*.json"):
    os.truncate(file, file.stat().st_size // 2)
assert triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"] == made
