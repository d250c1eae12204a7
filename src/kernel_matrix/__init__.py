"""A multi-vendor test matrix for one package of GPU kernels: plan, run, collect, compare, report.

PYTEST_DONT_REWRITE: a job has imported this before pytest begins, and pytest would warn that it cannot rewrite it.
"""

__version__ = "0.1.0"
