# /// probe
# asks = "Does triton.compile make machine code for NVIDIA and AMD if neither GPU is here?"
# means = "A compile-only cell of Triton needs no container and no toolkit."
# met = "our own matrix"
# truth = "It does, for sm_80 to sm_100 and gfx90a to gfx1201: ptxas and the AMD backend are in the wheel."
# requires = ["triton"]
# [[expect]]
# versions = ["triton<3.5"]
# verdict = "fails"
# match = "gfx942: ROCm linker"
# [[expect]]
# verdict = "works"
# ///
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add(a, b):
    i = tl.arange(0, 64)
    tl.store(b + i, tl.load(a + i) + 1.0)


source = ASTSource(add, signature={"a": "*fp32", "b": "*fp32"})
targets = [GPUTarget("cuda", arch, 32) for arch in (80, 90, 100)]
targets += [
    GPUTarget("hip", arch, 64 if arch.startswith("gfx9") else 32)
    for arch in ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
]
lacking = []
for target in targets:
    try:
        triton.compile(source, target=target)
    except Exception as error:
        lacking.append(f"{target.arch}: {str(error).splitlines()[0]}")
assert not lacking, lacking
