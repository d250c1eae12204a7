"""The findings of sanitizers in the kernels of a package: reads past the end, races, memory that nobody wrote."""
