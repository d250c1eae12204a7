# /// probe
# asks = "Does ** work on an element of a TE tensor?"
# means = "a[i] ** 2 is an expression."
# met = "the first documents, **"
# truth = "TE expressions have no ** operator. Write tirx.power(a[i], 2) or a[i] * a[i]."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = 'unsupported operand type\(s\) for \*\*'
# ///
from tvm import te

a = te.placeholder((8,), name="a")
b = te.compute((8,), lambda i: a[i] ** 2, name="b")
print(te.create_prim_func([a, b]))
