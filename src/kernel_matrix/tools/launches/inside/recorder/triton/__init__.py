"""Launches of Triton kernels: recorded, and compiled for each target."""
