"""The copies of the harness have all that their processes import."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kernel_matrix.run.harness import copy_for_jobs, copy_with

_ALONE = "import sys; sys.path.append(sys.argv[1]); import {}; print({}.__file__)"
PROCESSES = [("bench", "kernel_matrix.tools.bench.inside.program"), ("fuzz", "kernel_matrix.tools.fuzz.inside.plugin")]


@pytest.mark.parametrize(("tool", "module"), PROCESSES)
def test_the_process_of_a_tool_imports_its_copy_alone(tool, module, tmp_path):
    folder = copy_with(tool, tmp_path / "copy")
    assert imported(folder, module).startswith(str(folder))
    assert not (folder / "kernel_matrix" / "config").exists()


def test_a_copy_for_jobs_has_no_tool(tmp_path):
    assert not (copy_for_jobs(tmp_path) / "kernel_matrix" / "tools").exists()


def imported(folder, module):
    command = [sys.executable, "-I", "-c", _ALONE.format(module, module), str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
