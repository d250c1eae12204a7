"""CUDA sources that a build gives to nvcc: recorded, and compiled for each target."""
