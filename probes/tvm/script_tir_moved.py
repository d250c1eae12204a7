# /// probe
# asks = "Does `from tvm.script import tir` still import?"
# means = "Scripts written for 0.2x versions still work."
# met = "our own code"
# truth = "The dialect is now tvm.script.tirx, and the schedule is tvm.s_tir.Schedule."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = "cannot import name 'tir' from 'tvm.script'"
# ///
from tvm.script import tir

print(tir)
