# /// probe
# asks = "Does torch.compile on a CPU say that the C++ compiler is missing?"
# means = "The message names the compiler, and not the model."
# met = "our own minimal images"
# truth = "Inductor writes C++ and needs g++ (or CXX) to compile it."
# requires = ["torch"]
# [[expect]]
# verdict = "works"
# ///
import os
import tempfile

os.environ |= {"PATH": "/nowhere", "CXX": "", "TORCHINDUCTOR_CACHE_DIR": tempfile.mkdtemp()}

import torch

try:
    torch.compile(lambda x: x.sin() + 1)(torch.zeros(8))
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    assert "compiler" in str(error).lower() or "g++" in str(error), error
else:
    raise AssertionError("it compiled without a compiler")
