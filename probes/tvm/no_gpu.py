# /// probe
# asks = "Does putting an array on a GPU say that there is none, or that the wheel has no GPU runtime?"
# means = "The error names the device API that is missing."
# met = "the TVM notes, error 6 (no GPU)"
# truth = "The wheel is built without a CUDA runtime, so tvm.cuda() fails on every machine, with or without a GPU."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "works"
# ///
import numpy as np
import tvm

print("tvm.cuda(0).exist:", tvm.cuda(0).exist)
if not tvm.cuda(0).exist:
    try:
        tvm.runtime.tensor(np.zeros(4, "float32"), tvm.cuda(0))
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        assert "cuda" in str(error).lower(), error
    else:
        raise AssertionError("an array was put on a GPU that does not exist")
