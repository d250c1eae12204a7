# /// probe
# asks = "Does triton.compile make machine code for NVIDIA and AMD if neither GPU is here?"
# means = "A compile-only cell of Triton needs no container and no toolkit."
# met = "our own matrix"
# truth = "It does, for all targets of the matrix: ptxas and the AMD backend are in the wheel."
# requires = ["triton"]
# [[expect]]
# versions = ["triton<3.5"]
# verdict = "fails"
# match = "gfx942: ROCm linker"
# [[expect]]
# versions = ["triton<3.6"]
# verdict = "fails"
# match = "'103: PTXAS error"
# [[expect]]
# versions = ["triton<3.7"]
# verdict = "fails"
# match = "'110: PTXAS error"
# [[expect]]
# versions = ["triton>=3.9"]
# verdict = "fails"
# match = "'gfx1030: "
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
# Those of matrix.yaml for Triton.
CUDA = (75, 80, 86, 89, 90, 100, 103, 110, 120, 121)
HIP = (
    "gfx90a",
    "gfx942",
    "gfx950",
    "gfx1100",
    "gfx1201",
    "gfx908",
    "gfx1030",
    "gfx1150",
    "gfx1151",
    "gfx1200",
    "gfx1250",
)
targets = [GPUTarget("cuda", arch, 32) for arch in CUDA]
targets += [GPUTarget("hip", arch, 64 if arch.startswith("gfx9") else 32) for arch in HIP]
lacking = []
for target in targets:
    try:
        triton.compile(source, target=target)
    except Exception as error:
        lacking.append(f"{target.arch}: {str(error).splitlines()[0]}")
assert not lacking, lacking
