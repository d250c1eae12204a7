"""A run for Slurm that is not submitted, and stand-ins of Slurm's programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from suites import MATRIX, Suite

from kernel_matrix import pipeline
from kernel_matrix.ci.engines import engine_named
from kernel_matrix.ci.event_plan import EventPlan, plan_rows

_SLURM = """
ci:
  slurm:
    account: kernels
    gres: "gpu:any"
    setup: |
      module load a
      module load b
    targets:
      sm_90: { gres: "gpu:h100", minutes: 30, options: [--exclusive] }
      sm_80: { gres: "gpu:a100:2", account: other }
"""
CUDA = """
  cuda:
    title: CUDA
    device: nvidia
    runner: [self-hosted]
    targets: [sm_80, sm_90, sm_100]
    toolchains: [plain]
"""


def plan_in(folder: Path) -> tuple[pipeline.Project, EventPlan]:
    """Return a matrix with rows for a CPU and two GPUs, and its plan."""
    suite = Suite.made(folder, {"tests/test_a.py": "def test_one(): pass\n"}, MATRIX.rstrip() + CUDA + _SLURM)
    project = pipeline.load(suite.root / "matrix.yaml")
    return project, plan_rows(project, machines=engine_named("slurm").machines(project.matrix))


# Words that a site's own programs print beside what they were asked for.
BANNER = "echo '*** The cluster is down on Monday | ask us ***'; "


def programs(folder: Path, monkeypatch: pytest.MonkeyPatch, sacct: str) -> None:
    """Put a squeue that has forgotten all jobs, and a sacct, before all others."""
    for name, lines in (("squeue", BANNER), ("sacct", sacct)):
        (folder / name).write_text(f"#!/bin/sh\n{lines}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


RAN = {"created": "1970-01-01T00:01:40Z", "started": "1970-01-01T00:02:40Z", "machine": "a1"}
LATER = {**RAN, "started": "1970-01-01T00:04:00Z", "machine": "a2"}
CLEARED = {**RAN, "started": ""}  # Slurm clears up after it
