"""Look at this machine, and say what each platform needs to be known one level better."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from rich.console import Console

import kernel_matrix
from kernel_matrix.base.errors import UserError
from kernel_matrix.cli.options import add_matrix_options, build_folder
from kernel_matrix.config.load import load
from kernel_matrix.config.model import Matrix
from kernel_matrix.diagnosis import with_cause
from kernel_matrix.lab.doctor import PLATFORM, examine
from kernel_matrix.lab.reachable import prospects
from kernel_matrix.run.docker import images
from kernel_matrix.run.docker.shell import container_for, request_for, run_in
from kernel_matrix.run.environments.venv import uv
from kernel_matrix.run.executors import InstallError
from kernel_matrix.vendors.machine import detect

_MARKS = {"good": "[green]✓[/]", "absent": "[yellow]-[/]", "broken": "[red]✗[/]"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: from where to look."""
    add_matrix_options(parser)
    parser.add_argument("--inside", metavar="PLATFORM", help="look from inside the platform's image, as a job sees it")


def main(options: argparse.Namespace) -> int:
    """Print the findings and prospects. Return 1 if something is broken, so that a script can ask."""
    matrix, machine = load(options.matrix), detect()
    if options.inside:
        return _inside(matrix, options)
    findings = examine(matrix, options.matrix.parent.resolve(), build_folder(options), machine)
    console = Console(highlight=False, soft_wrap=True)
    for finding in findings:
        console.print(f"{_MARKS[finding.status]} {finding.what}: ", end="")
        console.print(finding.text, markup=False)
        if finding.remedy and finding.status != "good":
            console.print(f"    {finding.remedy}", markup=False)
    console.print()
    for prospect in prospects(matrix, findings, machine, os.environ.get(PLATFORM, "")):
        console.print(f"{prospect.platform}: up to '{prospect.reaches}' here.", markup=False)
        if prospect.lacking:
            console.print(f"    lacking: {prospect.lacking}", markup=False)
        console.print(f"    {prospect.command}", markup=False)
    return int(any(finding.status == "broken" for finding in findings))


def _inside(matrix: Matrix, options: argparse.Namespace) -> int:
    """Run the same command in the platform's image, and return its exit status.

    The image has toolchains and no harness: it is lent this one and the packages that this one imports.

    Raises:
        UserError: there is no such image, or the packages cannot be had.
    """
    root, build = options.matrix.parent.resolve(), build_folder(options)
    request = request_for(
        matrix, root, build, detect(), options.inside, None, lambda text: print(text, file=sys.stderr)
    )
    project, packages = Path(kernel_matrix.__file__).parents[2], request.folder / "harness"
    with container_for(request) as interpreter:
        shutil.copytree(Path(kernel_matrix.__file__).parent, packages / "kernel_matrix", dirs_exist_ok=True)
        try:
            uv(
                *("pip", "install", "--quiet", "--python", sys.executable),
                *("--target", str(packages), "--python-version", Path(images.PYTHON).name.removeprefix("python")),
                *("-r", str(project / "pyproject.toml"), "-c", str(project / "ci" / "locks" / "harness.txt")),
            )
        except InstallError as error:
            raise UserError(with_cause(f"the harness's own packages, for the image: {error}", "install")) from None
        configuration = interpreter.seen(options.matrix.resolve())
        command = [images.PYTHON, "-m", "kernel_matrix", "doctor", "--matrix", configuration]
        return run_in(request, interpreter, command, interpreter.seen(packages))
