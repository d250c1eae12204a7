"""Say in a terminal what was seen in a repository, what was written, and what comes next."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from kernel_matrix.adopt import layout, requirements
from kernel_matrix.adopt.compiled import UNPACKED
from kernel_matrix.adopt.first_cell import Idle
from kernel_matrix.adopt.proposal import WORKFLOW
from kernel_matrix.adopt.repository import TOOLCHAINS, Repository, passed_over
from kernel_matrix.base import installation
from kernel_matrix.base.git import why_no_checkout
from kernel_matrix.base.wheels import wheels_of
from kernel_matrix.base.words import counted, some
from kernel_matrix.config.load import MATRIX_FILE
from kernel_matrix.config.locks import pins
from kernel_matrix.vendors.builds import CPU, distribution, public

_SHOWN = 5


def seen_lines(repository: Repository) -> Iterator[str]:
    """Yield what the repository holds."""
    is_made = repository.source == UNPACKED
    where = f"made of the files in {_folder(repository.folder)}" if is_made else f"in {_folder(repository.source)}"
    yield f"package {repository.module} {where}, tested with Python {repository.python}"
    if repository.toolchains:
        yield f"imports {', '.join(TOOLCHAINS[name] for name in repository.toolchains)}"
    if repository.kernels:
        yield f"{counted(len(repository.kernels), 'function')} in Triton: {some(repository.kernels, _SHOWN)}"
    if repository.cuda:
        names = [path.relative_to(repository.root).as_posix() for path in repository.cuda]
        how = "" if repository.project.compiled.commands else ", which nothing here compiles"
        yield f"{len(names)} sources in CUDA C++ or HIP{how}: {some(names, _SHOWN)}"
    for command in repository.project.compiled.commands:
        yield f"built by: {command}"
    yield from _tests(repository)
    if repository.programs:
        yield f"programs, as pytest finds no test in them: {some(repository.programs, _SHOWN)}"
    if repository.not_taken:
        left = [f"{_folder(name)} ({counted(count, 'file')})" for name, count in repository.not_taken]
        yield f"not taken: {some(left, _SHOWN)}"
    if repository.others:
        yield f"other packages: {', '.join(f'--root {name}' for name in repository.others[:_SHOWN])}"
    yield from _systems(repository)
    yield from repository.project.notes
    if lacking := requirements.lacking_files(repository):
        files = ", ".join(f"{name}.py" for name in lacking)
        yield f"files of the suite that are not here, as in many source archives: {files}"
    if unknown := requirements.unknown_imports(repository):
        yield f"imported at the top of a file, and by this name in no list of requirements: {', '.join(unknown)}"
    if why := why_no_checkout(repository.root):
        yield f"{why}. So results carry no commit"


def _tests(repository: Repository) -> Iterator[str]:
    """Yield where the tests of the package are, or what to do where none was found."""
    if repository.project.compiled.ctest:
        yield "tests of CTest"
    elif repository.suite is not None:
        yield f"tests in {_folder(repository.suite)}: {counted(len(repository.test_files), 'file')}"
    else:
        yield (
            "no test that imports it was found, so no matrix.yaml is written: write tests/test_one.py and begin again, "
            "or name the folder of its tests, `kernel-matrix init --suite FOLDER`"
        )
        if hint := passed_over(repository.root, repository.root, repository.project):
            yield hint


def _systems(repository: Repository) -> Iterator[str]:
    """Yield which build systems there are, where one is not Python's; and what makes a test of CMake's a case."""
    systems = layout.systems_of(repository.root)
    if set(systems) <= {"Python", "make"} or repository.project.compiled.ctest:
        return
    how = repository.project.compiled.commands
    yield f"build systems: {', '.join(systems)}; {f'built is what `{how[0]}` builds' if how else 'nothing is built'}"
    if "CMake" in systems and not how:
        yield (
            "tests of CMake are cases where CMakeLists.txt has enable_testing() and add_test(); "
            "`build` in matrix.yaml has the commands (docs/how-to/build.md)"
        )


def next_lines(
    repository: Repository,
    lock: Path,
    root: Path = Path(),
    *,
    may_be_too_new: bool = False,
    sample: int | None = None,
    idle: Idle | None = None,
) -> Iterator[str]:
    """Yield what a person can do next: the whole suite, and the kernels of a package that has some.

    Each command runs as it stands in the present folder. ``root`` is the repository, as it was typed.
    ``may_be_too_new``: the first cell is red, and the repository pins other versions than the lock has. ``sample``: as
    many tests the quick tier has. ``idle``: no test that was tried runs on this machine.
    """
    if idle:
        yield from _of_idle(idle)
    if repository.suite is not None:
        options = "" if _is_here(root) else f" --matrix {_word(root / MATRIX_FILE)}"
        if may_be_too_new:
            yield f"the versions that the repository pins, if the newest are at fault: `kernel-matrix lock{options}`"
        if sample:
            yield f"a sample of {counted(sample, 'test')}, and the page: `kernel-matrix matrix{options}`"
            options += " --tier full"
        yield f"all tests, and the page: `kernel-matrix matrix{options}`"
        if not installation.requirement():
            file = _word(root / WORKFLOW)
            yield f"write the address of kernel-matrix into {file}, in place of OWNER and COMMIT"
    if repository.kernels:
        yield from _of_kernels(repository, lock, root)


def _of_kernels(repository: Repository, lock: Path, root: Path) -> Iterator[str]:
    """Yield how every Triton kernel is launched for every target, in an environment that may have to be made."""
    environment, present = root / ".venv", "{}.{}".format(*sys.version_info)
    if not (environment / "pyvenv.cfg").exists():
        made = installation.uv_line("venv", "--python", present, environment.as_posix())
        yield f"an environment for the package: {made}"
    build = _backend(repository.root / lock)
    itself = [root.as_posix()] if repository.source == UNPACKED else []
    needed = installation.into(environment.as_posix(), *build, "-r", (root / lock).as_posix(), *itself)
    yield f"what belongs into it: {needed}"
    is_found = itself or _is_here(root / repository.source)
    path = "" if is_found else f"PYTHONPATH={_word(root / repository.source)} "
    has_pytest = repository.suite is not None and not repository.project.compiled.ctest
    program = f"-m pytest {_word(root / str(repository.suite))}" if has_pytest else "calls.py"
    if not has_pytest and repository.programs:
        program = _word(root / repository.programs[0])
    elif not has_pytest:
        yield "write calls.py, a program that calls the kernels"
    yield (
        "every Triton kernel that it launches, for every target, without a GPU: "
        f"{path}`kernel-matrix launches -- {_word(environment / 'bin' / 'python')} {program}`"
    )


def _of_idle(idle: Idle) -> Iterator[str]:
    """Yield the ways out for a suite of which no test runs on a machine without a GPU."""
    tried = f"none of the {idle.tried} tests that were tried runs" if idle.tried > 1 else "what was tried does not run"
    yield (
        f"{tried} here ({idle.reason[:200]}). Where none runs, the workflow's job is red: do not require its status yet"
    )
    if idle.of_device:
        yield (
            "if all tests need a GPU, a runner of your own runs them: a platform with its labels as `runner` in "
            f"{MATRIX_FILE}, and a job on it (docs/how-to/self-hosted-machine.md)"
        )
        yield (
            "without a GPU, `kernel-matrix launches -- python calls.py` compiles and checks the kernels that a "
            "program of yours launches (docs/launches.md)"
        )


def _is_here(folder: Path) -> bool:
    return folder.resolve() == Path.cwd()


def _backend(lock: Path) -> list[str]:
    """Return the option by which uv takes PyTorch's build for a CPU; none where a configured folder has the wheel."""
    version = pins(lock).get(distribution())
    here = {public(found) for _, found in wheels_of(distribution())}
    return ["--torch-backend", CPU] if version is not None and version not in here else []


def _folder(name: str) -> str:
    return "this folder" if name == "." else f"{name}/"


def _word(path: Path) -> str:
    return shlex.quote(path.as_posix())
