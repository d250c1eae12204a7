# /// probe
# asks = "Does Inductor notice that the library with which it tried the CPU's vectors is cut short?"
# means = "A damaged cache does not change the numbers of kernels."
# met = "a case with a damaged cache"
# truth = "It does not: it keeps that library in its cache, takes a library that does not load for a CPU without these vectors, and from then on compiles for narrower ones, without a word. Sums have other bits. Delete the cache."
# requires = ["torch>=2.13"]
# [[expect]]
# verdict = "fails"
# match = "AVX2 is not there any more"
# ///
import os
import tempfile
from pathlib import Path

import torch

os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder = tempfile.mkdtemp()

from torch._inductor.cpu_vec_isa import VecAVX2

CODE = "extern int one() { return 1; }"
print(torch.__version__)
assert VecAVX2().check_build(CODE), "this CPU has no AVX2, or there is no g++"
for file in Path(folder).rglob("*.so"):
    os.truncate(file, file.stat().st_size // 2)
assert VecAVX2().check_build(CODE), "AVX2 is not there any more"
