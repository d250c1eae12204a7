# /// probe
# asks = "Does Inductor read a filled cache in which it cannot make a file?"
# means = "An image may bring a cache that nobody can write."
# met = "a case with a read-only cache"
# truth = "It does not: it makes a lock's file in the cache before it looks whether something is to be written. Copy the cache to a folder that can be written."
# requires = ["torch>=2.13"]
# [[expect]]
# verdict = "fails"
# match = "FileExistsError|NotADirectoryError"
# ///
import os
import shutil
import tempfile
from pathlib import Path

import torch

os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder = tempfile.mkdtemp()

from torch._inductor.cpu_vec_isa import VecAVX2

CODE = "extern int one() { return 1; }"
print(torch.__version__)
assert VecAVX2().check_build(CODE), "this CPU has no AVX2, or there is no g++"
shutil.rmtree(Path(folder, "locks"))
Path(folder, "locks").touch()  # root too cannot make a file below this
assert VecAVX2().check_build(CODE)
