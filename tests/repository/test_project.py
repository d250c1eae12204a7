"""The project as a user sees it: its sessions, and what its files promise."""

from __future__ import annotations

import re
import sys
import tomllib

import pytest
import together
from common import ROOT, sh
from loops import at_least

from kernel_matrix.config.locks import source_of
from kernel_matrix.run.environments import venv
from kernel_matrix.run.executors import InstallError


def test_an_environment_that_cannot_be_made_is_an_install_error_in_uv_s_words(tmp_path):
    lock = tmp_path / "lock.txt"
    lock.write_text("a-package-that-nobody-has-published==99\n")
    with pytest.raises(InstallError, match="a-package-that-nobody-has-published"):
        venv.uv("pip", "install", "--dry-run", "--python", sys.executable, "-r", str(lock))


@pytest.mark.slow
def test_sessions_come_from_the_matrix(matrix):
    listed = sh(sys.executable, "-m", "nox", "-l").stdout
    for name, platform in at_least(10, matrix.platforms.items()):
        text = f"Test on {platform.title}: run what has its hardware here, compile the rest."
        assert f"test-{name} -> {text}" in listed
    for name in ("matrix", "report", "tests", "lint"):
        assert re.search(rf"^[*-] {name} -> .+\.$", listed, re.MULTILINE)


@pytest.mark.slow
def test_an_unknown_platform_in_a_session_s_name_is_bad_input():
    done = sh(sys.executable, "-m", "nox", "-s", "test-rokm")
    assert done.returncode == 2
    assert done.stderr.strip() == "nox -s test-rokm: matrix.yaml has no platform 'rokm'. Did you mean 'test-rocm'?"


def test_a_plain_nox_gets_what_the_harness_imports():
    """Outside .venv, nox makes an environment from the list in the noxfile."""
    text = (ROOT / "noxfile.py").read_text()
    script = re.search(r"^# /// script\n(.*?)^# ///$", text, re.DOTALL | re.MULTILINE).group(1)
    own = tomllib.loads(re.sub(r"^# ?", "", script, flags=re.MULTILINE))["dependencies"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    of_containers = project["optional-dependencies"]["containers"]
    assert own == sorted({"nox>=2026.10", *project["dependencies"], *of_containers})


@pytest.mark.slow
def test_a_job_imports_no_more_than_the_standard_library_pytest_and_numpy():
    """An import of the plugin must not import what only the harness has."""
    code = "import sys, kernel_matrix.job.plugin; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = set(sh(sys.executable, "-c", code).stdout.split())
    assert "numpy" in loaded
    assert not loaded & {"pydantic", "ruamel", "jinja2", "rich", "junitparser", "packaging", "torch", "mhc"}


def test_the_harness_imports_neither_torch_nor_the_kernel_package_and_the_reverse():
    harness = ROOT / "src" / "kernel_matrix"
    # They run in a user's program, or in the Python that has what a task is written in.
    of_users = [*harness.glob("tools/*/inside"), harness / "kit" / "frameworks", harness / "tools" / "verify" / "tasks"]
    assert len(of_users) > 5
    assert all(folder.is_dir() for folder in of_users)
    for path in at_least(300, harness.rglob("*.py")):
        if any(map(path.is_relative_to, of_users)):
            continue
        assert not re.search(r"^\s*(?:import|from) (?:torch|mhc)\b", path.read_text(), re.MULTILINE), path
    for path in at_least(100, (ROOT / "src" / "mhc").rglob("*.py")):
        assert "kernel_matrix" not in path.read_text(), path


def test_the_files_of_tests_that_begin_first_exist():
    names = {path.stem for path in at_least(150, (ROOT / "tests").rglob("test_*.py"))}
    assert [name for name in at_least(30, together.LONGEST) if name not in names] == []


def test_locks_pin_everything_and_name_no_index():
    for path in at_least(25, (ROOT / "ci" / "locks").glob("*.txt")):
        lines = [line for line in path.read_text().splitlines() if line.strip() and not line.lstrip().startswith("#")]
        assert lines, path
        assert all(re.match(r"^[\w.-]+==[\w.]+( ;.*)?$", line) for line in lines), path
        assert source_of(path).exists(), path
