"""Triton's kernels for AMD, run as machine code by the emulator of AMD's GPUs; the sources are those of ``triton``."""
