"""Ask a suite's own comparisons which known faults they see.

A test that knows nothing of the harness compares arrays by a function of NumPy, of pytest or of a framework. Where that
function says that they agree, faults are put into a copy of the result, one at a time, and the same function is asked
again, with the same tolerances. The test gets what the function said of the true result, and nothing else.
"""

OPTION = "--kernel-matrix-canaries"  # of pytest
