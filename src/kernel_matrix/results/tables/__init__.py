"""Results as Parquet: a folder with four tables, which any engine that reads Parquet can ask.

A folder of results holds ``jobs/NAME.parquet``, ``cases/NAME.parquet``, ``outputs/NAME.parquet`` and
``samples/NAME.parquet`` for each job. NAME is the job and its identity, which follows from its content: the same
results have the same name wherever they are written, so folders are merged by copying files.

Importing this package imports neither pyarrow nor DuckDB: most commands need neither, and both take long to import.
"""
