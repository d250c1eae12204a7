"""Pallas (JAX) lowered by Triton: kernels for NVIDIA's GPUs."""
