# /// probe
# asks = "Does a tensorize that does not fit raise an exception?"
# means = "A wrong schedule raises an exception, and the process goes on."
# met = "our own schedules"
# truth = "From apache-tvm-ffi 0.1.15.post1 on, the process dies of a segmentation fault. 0.1.14.post1 is safe."
# requires = ["apache-tvm"]
# [[expect]]
# versions = ["apache-tvm>=0.26", "apache-tvm-ffi>=0.1.15.post1"]
# verdict = "fails"
# match = "SIGSEGV"
# [[expect]]
# verdict = "works"
# ///
import tvm
from tvm import s_tir, te

a = te.placeholder((8, 8), name="a")
b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="b")
schedule = s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func([a, b])}))
i, _ = schedule.get_loops(schedule.get_sblock("b"))
# An intrinsic of our own: to import TVM's own parses all of them, which takes ten seconds.
c = te.placeholder((4, 4, 4), name="c")
d = te.compute((4, 4, 4), lambda i, j, k: c[i, j, k] * 2.0, name="d")
other = te.create_prim_func([c, d])
s_tir.TensorIntrin.register("probe_of_three_loops", other, other)
try:
    schedule.tensorize(i, "probe_of_three_loops")
except Exception as error:
    print(f"{type(error).__name__}: {str(error)[:200]}")
else:
    raise AssertionError("a tensorize that cannot fit was accepted")
