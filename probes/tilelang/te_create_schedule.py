# /// probe
# asks = "Does tilelang's own TVM still have te.create_schedule?"
# means = "Schedules of the TE age can be used."
# met = "the first documents, taken for a lack of tilelang's TVM"
# truth = "TVM removed TE schedules altogether, and standard TVM has none either. Use te.create_prim_func and a Schedule."
# requires = ["tilelang"]
# [[expect]]
# verdict = "fails"
# match = "has no attribute 'create_schedule'"
# ///
from tilelang import tvm
from tvm import te

a = te.placeholder((64,), name="a")
b = te.compute((64,), lambda i: a[i] + 1.0, name="b")
print(tvm, te.create_schedule(b.op))
