"""TileLang 0.1.8 and 0.1.15: CUDA, HIP source, and C for the CPU."""
