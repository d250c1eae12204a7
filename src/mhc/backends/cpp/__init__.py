"""Hand-written kernels in CUDA C++: one source for nvcc, hipcc or clang, and a CPU, whose threads are fibers."""
