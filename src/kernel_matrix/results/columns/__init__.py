"""Collect, judge and summarise results as columns (Arrow tables, DuckDB) and not as one object for each result.

The rules are those of :mod:`kernel_matrix.results.compare`; tests hold both to the same verdicts.
"""
