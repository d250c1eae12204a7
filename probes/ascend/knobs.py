# /// probe
# asks = "Has triton-ascend the module triton.knobs?"
# means = "The launcher of the Triton kernels for GPUs can be imported where triton-ascend is."
# met = "our own backend triton, imported for Ascend"
# platforms = ["ascend"]
# truth = "Triton has it from 3.4 on, and triton-ascend 3.2.0 is older. The kernels for Ascend have a folder of their own."
# requires = ["triton-ascend"]
# [[expect]]
# verdict = "fails"
# match = "cannot import name 'knobs' from 'triton'"
# ///
from triton import knobs

assert knobs
