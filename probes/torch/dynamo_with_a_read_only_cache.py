# /// probe
# asks = "Does torch._dynamo import where the folder of Inductor's cache cannot be made?"
# means = "A read-only home, such as a container's, does not keep code that compiles nothing from running."
# met = "a case with a read-only cache: the backward of a kernel in C++, whose autograd imports it"
# truth = "It does not: the import makes the folder. Name one that can be written in TORCHINDUCTOR_CACHE_DIR, or make it beforehand."
# requires = ["torch>=2.13"]
# [[expect]]
# verdict = "fails"
# match = "NotADirectoryError"
# ///
import os
import tempfile

import torch

os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{tempfile.mkstemp()[1]}/below/a/file"  # root too cannot make this

import torch._dynamo

print(torch._dynamo)
