# /// probe
# asks = "Does this tilelang import with the apache-tvm-ffi in its environment?"
# means = "The pin of apache-tvm-ffi fits as far as the import."
# met = "the first documents: pip install tilelang==0.1.8 works, and import tilelang fails"
# truth = "tilelang 0.1.8 to 0.1.11 set no upper bound for apache-tvm-ffi, and pip takes a version that is years too new for the wheel."
# requires = ["tilelang"]
# [[expect]]
# versions = ["tilelang>=0.1.10,<0.1.12", "apache-tvm-ffi>=0.1.12"]
# verdict = "fails"
# match = "SIGABRT"
# [[expect]]
# versions = ["tilelang<0.1.10", "apache-tvm-ffi>=0.1.13"]
# verdict = "fails"
# match = "Type 'ffi.Tensor' already has a registered class"
# [[expect]]
# versions = ["tilelang<0.1.10", "apache-tvm-ffi==0.1.12"]
# verdict = "fails"
# match = "attribute '__dict__' of 'type' objects is not writable"
# [[expect]]
# versions = ["tilelang==0.1.12", "apache-tvm-ffi<0.1.11"]
# verdict = "fails"
# match = "cannot import name 'Enum' from 'tvm_ffi.dataclasses'"
# [[expect]]
# verdict = "works"
# ///
import tilelang

print(tilelang.__version__)
