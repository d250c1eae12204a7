"""All that a job imports: the standard library, pytest, NumPy and ml_dtypes are enough for it."""
