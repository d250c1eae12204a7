"""Triton: one source for NVIDIA and AMD, and for Triton's interpreter on a CPU."""
