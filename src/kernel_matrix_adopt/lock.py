"""Resolve a file of requirements to a lock file by uv."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import write_atomically
from kernel_matrix.base.wheels import wheels_of
from kernel_matrix.config.model import Installer
from kernel_matrix.run.environments.venv import uv
from kernel_matrix.run.executors import InstallError

OLDEST_PYTHON = "3.11"
_BUILD = re.compile(r"\+(cpu|cu\d+|rocm[\d.]+|xpu)\b")


def resolve(source: Path, into: Path, installer: Installer, python: str = OLDEST_PYTHON) -> None:
    """Write the lock of ``source``: every distribution with its version, as uv chooses them for the oldest Python.

    Of a distribution that has a build for each kind of machine, the lock names the version alone. It is resolved with
    the build for a CPU, so that no library of a GPU comes in: each machine installs its own build.

    Raises:
        UserError: the requirements cannot be resolved; the last lines of uv.
    """
    local = wheels_of(installer.builds_of)[-1:] if installer.builds_of else []
    attempts: list[tuple[Mapping[str, str], str]] = [({}, f"{name}=={version}\n") for name, version in local]
    attempts.append((installer.cpu if installer.builds_of else {}, ""))
    for variables, constraint in attempts:
        text, fault = _resolved(source, python, variables, constraint)
        if not fault:
            write_atomically(into, _BUILD.sub("", text) if installer.builds_of else text)
            return
    raise UserError(f"{source.name} cannot be resolved: {fault}")


def _resolved(source: Path, python: str, variables: Mapping[str, str], constraint: str) -> tuple[str, str]:
    """Return the text of the lock; or an empty text, and what uv says."""
    with tempfile.TemporaryDirectory() as folder:
        constraints, output = Path(folder, "constraints.txt"), Path(folder, "lock.txt")
        constraints.write_text(constraint, encoding="utf-8")
        words = ["--constraints", str(constraints)] if constraint else []
        try:
            uv(
                *("pip", "compile", "--quiet", "--no-header", "--no-emit-find-links", "--no-emit-index-url"),
                *("--python-version", python, "--upgrade", *words, "--output-file", str(output), str(source)),
                variables=variables,
            )
        except InstallError as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            return "", " ".join(lines[1:])[:600]
        text = output.read_text(encoding="utf-8")
        return re.sub(rf"^ +# +-c {re.escape(folder)}.*\n", "", text, flags=re.MULTILINE), ""
