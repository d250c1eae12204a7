# /// probe
# asks = "Does @tilelang.jit without a target, on a machine without a GPU, say what is missing?"
# means = "One exception names the target or the missing device, and the process does not abort."
# met = "the first documents, and every machine without a GPU"
# truth = "If no target is named, tilelang looks for a device, and what happens then differs by version. Name the target."
# requires = ["tilelang"]
# [[expect]]
# versions = ["tilelang==0.1.8"]
# verdict = "fails"
# match = "libcudart symbols not found globally"
# [[expect]]
# versions = ["tilelang>=0.1.9,<0.1.15"]
# verdict = "fails"
# match = "sm_50|compute_50"
# [[expect]]
# verdict = "works"
# ///
import os
from pathlib import Path

# From 0.1.15 on a hipcc is taken for a GPU of AMD; the question is about a machine that has neither.
folders = os.environ.get("PATH", "").split(os.pathsep)
os.environ["PATH"] = os.pathsep.join(folder for folder in folders if not Path(folder, "hipcc").exists())

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def add(n):
    @T.prim_func
    def main(a: T.Tensor((n,), "float32"), b: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=n) as _:
            for i in T.Parallel(n):
                b[i] = a[i] + 1.0

    return main


try:
    add(64)
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    if "target" not in str(error).lower() or "_50" in str(error):
        raise
else:
    assert torch.cuda.is_available(), "it compiled for a device that is not here"
