# /// probe
# asks = "Does standard TVM still have te.create_schedule?"
# means = "Schedules of the TE age can be used."
# met = "the first documents, taken for a lack of TileLang's TVM"
# truth = "TE schedules were removed. The oldest wheel that can be installed, 0.25, has none. Use te.create_prim_func and s_tir.Schedule."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = "has no attribute 'create_schedule'"
# ///
from tvm import te

a = te.placeholder((64,), name="a")
b = te.compute((64,), lambda i: a[i] + 1.0, name="b")
print(te.create_schedule(b.op))
