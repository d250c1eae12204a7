"""An environment gets the build of a distribution for its kind of machine."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from kernel_matrix.config.model import Installer, Matrix
from kernel_matrix.run.environments.builds import is_among, pin_of
from kernel_matrix.run.environments.venv import variables_for

INSTALLER = Installer(builds_of="Many_Builds", cpu={"UV_TORCH_BACKEND": "cpu"}, gpu={"UV_TORCH_BACKEND": "auto"})


@pytest.fixture
def lock(tmp_path) -> Path:
    path = tmp_path / "lock.txt"
    path.write_text("numpy==2.4.6\nmany-builds==1.0 ; python_version > '3'\n    # via nothing\n")
    return path


def wheel(folder: Path, version: str) -> Path:
    folder.mkdir(exist_ok=True)
    path, about = folder / f"many_builds-{version}-py3-none-any.whl", f"many_builds-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: many-builds\nVersion: {version}\n")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", f"{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
    return path


def test_the_pin_is_found_whichever_way_its_name_is_written(lock):
    assert pin_of(INSTALLER, lock.read_text()) == "many-builds==1.0"
    assert pin_of(INSTALLER, "many-builds-of-another==1.0\n") is None
    assert pin_of(Installer(), lock.read_text()) is None


def test_a_machine_with_a_gpu_takes_the_gpu_s_build(lock):
    assert variables_for(INSTALLER, Path(sys.executable), lock, gpu=True) == INSTALLER.gpu


def test_a_machine_without_one_takes_the_wheel_that_is_configured_and_else_the_cpu_s_build(lock, tmp_path, monkeypatch):
    monkeypatch.delenv("UV_FIND_LINKS", raising=False)
    wheel(tmp_path / "wheels", "2.0")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    assert variables_for(INSTALLER, Path(sys.executable), lock, gpu=False) == INSTALLER.cpu
    fitting = wheel(tmp_path / "wheels", "1.0")
    assert variables_for(INSTALLER, Path(sys.executable), lock, gpu=False) == {}
    assert is_among(INSTALLER, [fitting])
    assert not is_among(INSTALLER, [Path("numpy-2.4.6-py3-none-any.whl")])


def test_a_lock_without_that_distribution_needs_no_variables(lock):
    lock.write_text("numpy==2.4.6\n")
    assert variables_for(INSTALLER, Path(sys.executable), lock, gpu=True) == {}


def test_the_project_says_which_distribution_that_is(matrix: Matrix):
    assert matrix.installer.builds_of == "torch"
