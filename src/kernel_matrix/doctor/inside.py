"""Doctor from inside a platform's image, which has toolchains and no harness."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import kernel_matrix
from kernel_matrix.base.errors import UserError
from kernel_matrix.diagnosis import with_cause
from kernel_matrix.pipeline import Project
from kernel_matrix.run.container import places
from kernel_matrix.run.environments.venv import uv
from kernel_matrix.run.executors import InstallError
from kernel_matrix.run.in_container import container_for, request_for, run_in
from kernel_matrix.vendors.machine import detect

_HARNESS = Path(kernel_matrix.__file__).parent
_PROJECT = _HARNESS.parents[1]


def run_inside(project: Project, configuration: str, platform: str, say: Callable[[str], None]) -> int:
    """Run ``kernel-matrix doctor`` in the platform's image, and return its exit status.

    ``configuration`` is the name of the project's matrix.yaml. The container sees a copy of this harness, and the
    packages that the harness imports.

    Raises:
        UserError: there is no such image, or the packages cannot be had.
    """
    request = request_for(project.matrix, project.root, project.build, detect(), platform, None, say)
    packages = request.folder / "harness"
    with container_for(request) as interpreter:
        shutil.copytree(_HARNESS, packages / _HARNESS.name, dirs_exist_ok=True)
        try:
            _install_packages(packages)
        except InstallError as error:
            text = f"the harness's own packages, for the image: {error}"
            raise UserError(with_cause(text, "install", project.rules)) from None
        matrix = interpreter.seen(project.root / configuration)
        command = [places.PYTHON, "-m", "kernel_matrix", "doctor", "--matrix", matrix]
        return run_in(request, interpreter, command, interpreter.seen(packages))


def _install_packages(folder: Path) -> None:
    """Install what the harness imports into a folder, for the Python of the images."""
    uv(
        *("pip", "install", "--quiet", "--python", sys.executable),
        *("--target", str(folder), "--python-version", Path(places.PYTHON).name.removeprefix("python")),
        *("docker", "-r", str(_PROJECT / "pyproject.toml")),
        *("-c", str(_PROJECT / "ci" / "locks" / "harness.txt")),
    )
