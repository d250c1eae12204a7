# /// probe
# asks = "Does tilelang.utils.target still exist?"
# means = "Code that imports determine_target from there still works."
# met = "our own code, moving from 0.1.8 to 0.1.15"
# truth = "The module was removed in 0.1.12. Build the target yourself with tvm.target.Target."
# requires = ["tilelang"]
# [[expect]]
# versions = ["tilelang<0.1.12"]
# verdict = "works"
# [[expect]]
# verdict = "fails"
# match = "No module named 'tilelang.utils.target'"
# ///
from tilelang.utils.target import determine_target

print(determine_target)
