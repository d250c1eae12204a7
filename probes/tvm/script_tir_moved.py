# /// probe
# asks = "Does `from tvm.script import tir` still import?"
# means = "Scripts of the 0.2x age go on working."
# met = "our own code"
# truth = "The dialect is tvm.script.tirx today, and the schedule is tvm.s_tir.Schedule."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = "cannot import name 'tir' from 'tvm.script'"
# ///
from tvm.script import tir

print(tir)
