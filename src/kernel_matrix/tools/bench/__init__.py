"""The benchmark: kernels and their rivals, timed on this machine's devices. What is wrong is not timed."""
