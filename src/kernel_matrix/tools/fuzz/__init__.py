"""The fuzzer: it searches for a shape and values at which a kernel is wrong, and names the smallest that it finds."""
