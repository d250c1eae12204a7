"""Kernels in CuTe DSL, the Python of CUTLASS: for NVIDIA only, and compiled without a GPU."""
