# /// probe
# asks = "Is a target with options taken as one string, 'cuda -arch=sm_90'?"
# means = "Code written for 0.2x versions still works."
# met = "our own code"
# truth = "Since 0.25 a target with options is a dict: {'kind': 'cuda', 'arch': 'sm_90'}."
# requires = ["apache-tvm"]
# [[expect]]
# verdict = "fails"
# match = "Cannot parse target string"
# ///
import tvm

print(tvm.target.Target("cuda -arch=sm_90"))
