# /// probe
# asks = "Does a CUDA target without an architecture, on a machine without a GPU, get one?"
# means = "TVM says for which architecture it compiled, or refuses; it does not guess."
# met = "our own matrix: a kernel compiled for sm_50"
# truth = "Without a GPU, TVM guesses an architecture that is years old. Name it."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = "no GPU is here, and the target is for sm_\\d+"
# ///
import tvm

target = tvm.target.Target("cuda")
arch = str(target.attrs["arch"]) if "arch" in target.attrs else ""
assert tvm.cuda(0).exist or not arch, f"no GPU is here, and the target is for {arch}"
