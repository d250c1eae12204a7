"""A job that has imported the harness, where the distribution is installed that has its plugin."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from common import ROOT


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting", ["-W=error", "-o=filterwarnings=error", "-W=error::pytest.PytestAssertRewriteWarning"]
)
def test_a_suite_whose_warnings_are_errors_runs(tmp_path, setting):
    """Pytest would warn that it cannot rewrite a module of the distribution that the job has imported already."""
    info = tmp_path / "site" / "kernel_matrix-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kernel-matrix\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[pytest11]\nkernel_matrix.job.fixture = kernel_matrix.job.fixture\n")
    (info / "RECORD").write_text("kernel_matrix/__init__.py,,\nkernel_matrix/job/fixture.py,,\n")
    (info.parent / "kernel_matrix").symlink_to(ROOT / "src" / "kernel_matrix")
    (tmp_path / "test_a.py").write_text("def test_a(): pass\n")
    program = "import sys, kernel_matrix, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "-p", "kernel_matrix.job.fixture", setting, "-q", "test_a.py"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_DISABLE_PLUGIN_AUTOLOAD"}
    environment["PYTHONPATH"] = str(info.parent)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
