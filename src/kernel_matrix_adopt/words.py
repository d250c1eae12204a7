"""Say in a terminal what was seen in a repository, what was written, and what comes next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from kernel_matrix.base import commands
from kernel_matrix.base.git import is_checkout
from kernel_matrix.base.wheels import wheels_of, words
from kernel_matrix.config.locks import pins
from kernel_matrix.vendors.builds import CPU, distribution, public
from kernel_matrix_adopt import requirements
from kernel_matrix_adopt.repository import TOOLCHAINS, Repository

_SHOWN = 5


def seen_lines(repository: Repository) -> Iterator[str]:
    """Yield what the repository holds."""
    yield f"package {repository.module} in {_folder(repository.source)}, for Python {repository.python} or later"
    if repository.toolchains:
        yield f"imports {', '.join(TOOLCHAINS[name] for name in repository.toolchains)}"
    if repository.kernels:
        yield f"{len(repository.kernels)} functions in Triton: {_some(list(repository.kernels))}"
    if repository.cuda:
        names = [path.relative_to(repository.root).as_posix() for path in repository.cuda]
        how = "" if repository.project.compiled.commands else ", which nothing here compiles"
        yield f"{len(names)} sources in CUDA C++ or HIP{how}: {_some(names)}"
    for command in repository.project.compiled.commands:
        yield f"built by: {command}"
    if repository.project.compiled.ctest:
        yield "tests of CTest"
    elif repository.suite is not None:
        yield f"tests in {_folder(repository.suite)}: {len(repository.test_files)} files"
    yield from repository.project.notes
    if unknown := requirements.unknown_imports(repository):
        yield f"imported at the top of a file, and in no list of requirements: {', '.join(unknown)}"
    if not is_checkout(repository.root):
        yield "this is no git checkout with a commit, so results carry no commit"


def next_lines(repository: Repository, lock: Path) -> Iterator[str]:
    """Yield what a person can do next: the whole suite, and the kernels of a package that has some."""
    if repository.suite is not None:
        yield "all tests, and the page: `kernel-matrix matrix`"
        if not commands.requirement():
            yield "in .github/workflows/kernel-matrix.yml, write the address of kernel-matrix, which it installs"
    if repository.kernels:
        yield "an environment for the package: uv venv .venv"
        yield f"what belongs into it: uv pip install --python .venv {_backend(repository.root / lock)}-r {_word(lock)}"
        path = "" if repository.source == "." else f"PYTHONPATH={shlex.quote(repository.source)} "
        yield (
            "every Triton kernel that a program launches, for every target, without a GPU: "
            f"{path}`kernel-matrix launches -- .venv/bin/python calls.py`"
        )


def _backend(lock: Path) -> str:
    """Return the option by which uv takes PyTorch's build for a CPU: its index, or pip's folder that has the wheel."""
    version = pins(lock).get(distribution())
    if version is None:
        return ""
    if version not in {public(found) for _, found in wheels_of(distribution())}:
        return f"--torch-backend {CPU} "
    return "".join(f"--find-links {shlex.quote(folder)} " for folder in words("UV_FIND_LINKS", "PIP_FIND_LINKS"))


def _folder(name: str) -> str:
    return "this folder" if name == "." else f"{name}/"


def _word(path: Path) -> str:
    return shlex.quote(path.as_posix())


def _some(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
