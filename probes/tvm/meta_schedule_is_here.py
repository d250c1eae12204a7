# /// probe
# asks = "Can meta-schedule, the successor of Ansor, build a candidate with what the wheel of TVM asks for?"
# means = "TVM's own builder works in the environment as it is locked."
# met = "the list of alternatives to schedules by hand"
# truth = "tvm.s_tir.meta_schedule is in the wheel of 0.27. Its builder hands candidates to other processes by cloudpickle, and to count cores it asks psutil; the wheel asks for neither. A builder and a runner in the same process need none of them: benchmarks/search.py."
# requires = ["apache-tvm"]
# [[expect]]
# versions = ["apache-tvm==0.27.*"]
# verdict = "fails"
# match = "No module named 'cloudpickle'"
# ///
import tvm
from tvm.s_tir import meta_schedule
from tvm.script import tirx as T


@T.prim_func
def main(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")):
    for i in range(64):
        b[i] = a[i] + T.float32(1)


builder = meta_schedule.builder.LocalBuilder(max_workers=1)
target = tvm.target.Target({"kind": "llvm", "num-cores": 1})
[result] = builder.build([meta_schedule.builder.BuilderInput(tvm.IRModule({"main": main}), target)])
assert result.error_msg is None, result.error_msg
