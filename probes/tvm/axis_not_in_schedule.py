# /// probe
# asks = "Does a schedule say which loop is gone when a fused one is used again?"
# means = "The error names the loop's absence and not an index or an internal check."
# met = "the TVM notes, error 5 (axis not in the schedule)"
# truth = "A loop that was split or fused no longer exists. Continue with the loops that split and fuse return."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "works"
# ///
import tvm
from tvm import s_tir, te

a = te.placeholder((8, 8), name="a")
b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="b")
schedule = s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func([a, b])}))
i, j = schedule.get_loops(schedule.get_sblock("b"))
schedule.fuse(i, j)
try:
    schedule.split(j, factors=[None, 4])
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    text = str(error)
    assert "loop" in text.lower() or "StmtSRef" in text or "expired" in text.lower(), text
else:
    raise AssertionError("a loop that was fused away was split")
