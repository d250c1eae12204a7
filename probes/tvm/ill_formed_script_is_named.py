# /// probe
# asks = "Does the error of an ill-formed script reach the terminal?"
# means = "A program that ends with exit status 1 has said why."
# met = "our own probe of buffers, which ended without a message"
# truth = "TVM 0.27 replaces sys.excepthook and prints nothing for an uncaught DiagnosticError. Set sys.excepthook = sys.__excepthook__ after the import."
# requires = ["apache-tvm"]
# [[expect]]
# versions = ["apache-tvm>=0.27"]
# verdict = "fails"
# match = "it ended with exit status 1 and did not name vecX_shared"
# [[expect]]
# verdict = "works"
# ///
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = """
import tvm
from tvm.script import tirx as T

@T.prim_func
def main(a: T.Buffer((64,), "float32")):
    vecX_shared = T.Buffer((64,), "float32", scope="shared")
    for i in range(64):
        a[i] = vecX_shared[i]

tvm.compile(main, target="llvm")
"""
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "script.py"
    path.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
said = done.stdout + done.stderr
print(said)
assert done.returncode, "an ill-formed script was accepted"
named = any("vecX_shared" in line and "T.Buffer" not in line for line in said.splitlines())
assert named, f"it ended with exit status {done.returncode} and did not name vecX_shared"
