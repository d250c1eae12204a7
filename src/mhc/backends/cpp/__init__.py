"""Hand-written kernels in CUDA C++: one source for nvcc, for hipcc or clang, and, with fibers for threads, for a CPU."""
