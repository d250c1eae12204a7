# /// probe
# asks = "Does this apache-tvm import with the apache-tvm-ffi in its environment?"
# means = "The pin of apache-tvm-ffi fits."
# met = "apache-tvm 0.25 as pip installs it"
# truth = "apache-tvm 0.25 sets no upper bound for apache-tvm-ffi, and only 0.1.12 has the symbols that its library needs."
# requires = ["apache-tvm"]
# [[expect]]
# versions = ["apache-tvm<0.26", "apache-tvm-ffi>0.1.12"]
# verdict = "fails"
# match = "undefined symbol"
# [[expect]]
# verdict = "works"
# ///
import tvm

print(tvm.__version__)
