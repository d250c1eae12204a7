"""Hand-written kernels in CUDA C++: one source for nvcc, for hipcc or clang, and for a CPU with fibers for threads."""
