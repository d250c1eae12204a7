# /// probe
# asks = "Does the LLVM in the wheel of TVM know Hygon's DCU gfx936?"
# means = "A cell of Hygon can be compiled with no toolkit of Hygon's."
# met = "the search for a way to Hygon's DCUs"
# platforms = ["hygon"]
# truth = "LLVM has no such processor. Hygon's own LLVM, in its toolkit DTK, has it."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = "gfx936 is no processor of LLVM"
# ///
from tvm.target import Target, codegen

target = Target({"kind": "llvm", "mtriple": "amdgcn-amd-amdhsa", "mcpu": "gfx942"})
names = [str(name) for name in codegen.llvm_get_cpu_archlist(target)]
assert "gfx942" in names, names
assert "gfx936" in names, f"gfx936 is no processor of LLVM {codegen.llvm_version_major()}: {' '.join(names)}"
