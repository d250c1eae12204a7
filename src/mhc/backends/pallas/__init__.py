"""Pallas (JAX): kernels for Google's TPUs, and for Pallas' interpreter of a TPU on a CPU."""
