"""A multi-vendor test matrix for one package of GPU kernels: plan, run, collect, compare, report."""

__version__ = "0.1.0"
