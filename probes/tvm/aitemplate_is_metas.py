# /// probe
# asks = "Is the package `aitemplate` of the index AITemplate, the compiler of Meta?"
# means = "AITemplate can be a toolchain, installed from a lock like any other."
# met = "the list of alternatives to TVM and TileLang"
# truth = "The only version, 0.1.0, is another person's package ('just for test') with no compiler in it. AITemplate's maintainers said in 2023 that no package for pip was planned (issue 821 of its repository); it has to be built from source."
# requires = ["aitemplate"]
# [[expect]]
# versions = ["aitemplate==0.1.0"]
# verdict = "fails"
# match = "No module named 'aitemplate'"
# ///
from aitemplate.compiler import compile_model

print(compile_model)
