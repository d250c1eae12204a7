# /// probe
# asks = "Does tirx.power work where ** does not?"
# means = "The replacement that te_power_of_slice names works."
# met = "as the remedy of te_power_of_slice"
# truth = "tirx.power works."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "works"
# ///
import numpy as np
import tvm
from tvm import te, tirx

a = te.placeholder((8,), name="a")
b = te.compute((8,), lambda i: tirx.power(a[i], tirx.const(2.0, "float32")), name="b")
kernel = tvm.compile(te.create_prim_func([a, b]), target="llvm")
given, got = tvm.runtime.tensor(np.arange(8, dtype="float32")), tvm.runtime.tensor(np.zeros(8, "float32"))
kernel(given, got)
assert (got.numpy() == np.arange(8) ** 2).all(), got.numpy()
