"""Hold what the code of kernels needs to limits, and compute how full it lets a GPU be."""
