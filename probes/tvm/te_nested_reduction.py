# /// probe
# asks = "Can a reduction stand inside an expression, or inside another reduction?"
# means = "te.sum(te.sum(...)) and 1 / te.sum(...) work."
# met = "the first documents, nested reductions"
# truth = "In TE a reduction must be the whole body of its own te.compute stage. Give each reduction its own stage."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = "Reductions are only allowed at the top level of compute"
# ///
from tvm import te

a = te.placeholder((8, 16), name="a")
j = te.reduce_axis((0, 16), name="j")
b = te.compute((8,), lambda i: 1.0 / te.sum(a[i, j], axis=j), name="b")
print(te.create_prim_func([a, b]))
