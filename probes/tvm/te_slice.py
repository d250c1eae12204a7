# /// probe
# asks = "Can a TE tensor be sliced with a range, as in a[i, 0:4]?"
# means = "NumPy's notation works in te.compute."
# met = "the first documents, TE slices"
# truth = "A TE tensor takes one index per dimension; in no TVM is a Python slice an expression. Write a loop or a reduction over that axis."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = "Need to provide 2 index in tensor but 3 was provided"
# ///
from tvm import te

a = te.placeholder((8, 16), name="a")
b = te.compute((8, 4), lambda i, j: a[i, 0:4][j] + 1.0, name="b")
print(te.create_prim_func([a, b]))
