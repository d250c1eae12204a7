"""Slurm: rows are tasks of array jobs, one array for each kind of node; the report is a job that waits for them."""

from kernel_matrix.ci.engines.slurm.engine import Slurm

ENGINE = Slurm()
