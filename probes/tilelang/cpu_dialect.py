# /// probe
# asks = "Is there a dialect for CPUs, tilelang.cpu.language?"
# means = "Code for the C target is written in that module."
# met = "our own CPU kernels"
# truth = "It came with 0.1.13 (0.1.10 to 0.1.12 have an empty tilelang.cpu). Before that, one language served all targets."
# requires = ["tilelang"]
# [[expect]]
# versions = ["tilelang<0.1.13"]
# verdict = "fails"
# match = "No module named 'tilelang.cpu"
# [[expect]]
# verdict = "works"
# ///
import tilelang.cpu.language as T

assert hasattr(T, "Kernel")
