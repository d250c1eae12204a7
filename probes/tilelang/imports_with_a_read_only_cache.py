# /// probe
# asks = "Does tilelang import where the folder of its cache cannot be made?"
# means = "A read-only home, such as a container's, does not keep it from compiling."
# met = "a case with a read-only cache"
# truth = "It does not: the import makes the folder. Name one that can be written in TILELANG_CACHE_DIR, or make it beforehand."
# requires = ["tilelang"]
# [[expect]]
# verdict = "fails"
# match = "NotADirectoryError"
# ///
import os
import tempfile

os.environ["TILELANG_CACHE_DIR"] = f"{tempfile.mkstemp()[1]}/below/a/file"  # root too cannot make this

import tilelang

print(tilelang.__version__)
