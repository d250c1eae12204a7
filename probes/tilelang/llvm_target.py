# /// probe
# asks = "Does tilelang's own TVM have LLVM?"
# means = "target='llvm' compiles."
# met = "the TVM notes, error 7 (no LLVM)"
# truth = "The wheels are built without LLVM. CPU code goes through target 'c'; apache-tvm's wheel has LLVM."
# requires = ["tilelang"]
# [[expect]]
# verdict = "fails"
# match = "this TVM has no target.build.llvm"
# ///
from tilelang import tvm

assert tvm.get_global_func("target.build.llvm", allow_missing=True), "this TVM has no target.build.llvm"
