"""Decide what the environment of the tests needs, and say of each line where it comes from."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kernel_matrix.adopt.repository import Repository

# What a job needs. pytest runs the tests, by classes that release 8 has first; the other two compare numbers.
_JOB = ("pytest>=8", "numpy", "ml_dtypes")
# Distributions whose name is known for certain. Another name is not guessed: anybody can publish under a guessed name.
_KNOWN = {
    **{
        name: name
        for name in (
            "einops",
            "hypothesis",
            "jax",
            "ml_dtypes",
            "numpy",
            "parameterized",
            "pytest",
            "scipy",
            "tilelang",
        )
    },
    **{name: name for name in ("torch", "torchvision", "transformers", "triton", "tqdm", "packaging", "pandas")},
    "tvm": "apache-tvm",
    "yaml": "pyyaml",
    "PIL": "pillow",
}
# What people list next to the tests' needs, and no test needs if none imports it.
_TOOLS = re.compile(
    r"(ruff|black|isort|flake8.*|pylint|mypy|pyright|pre-commit|prek|coverage|codespell|build|twine|bump.*|tox|nox"
    r"|mkdocs.*|sphinx.*|furo|myst.*|types-.*|jupyter.*|ipykernel|ipython|notebook|nbconvert|cibuildwheel)"
)


def lines(repository: Repository) -> list[str]:
    """Return the lines of the file that the lock is made from, with a comment before the lines of each origin."""
    origins: dict[str, list[str]] = {}
    taken: set[str] = set()
    for text, origin in (*repository.project.needs, *_imported(repository), *((name, "every job") for name in _JOB)):
        name = canonicalize_name(Requirement(text).name)
        if name == canonicalize_name(repository.project.name or repository.module):
            continue  # an extra that names the package itself with other extras
        if _TOOLS.fullmatch(name) and name.replace("-", "_") not in _needed_modules(repository):
            continue
        own = origin.startswith("pyproject") or (text in _JOB and bool(Requirement(text).specifier))
        if not any(text in texts for texts in origins.values()) and (own or name not in taken):
            origins.setdefault(origin, []).append(text)
        taken.add(name)
    output = ["# What the environment of the tests needs. `kernel-matrix lock` makes the lock in this folder from it."]
    for origin, texts in origins.items():
        output += [f"# {origin}", *texts]
    if unknown := unknown_imports(repository):
        output += [f"# The tests import these too, and no file says which distributions they are: {', '.join(unknown)}"]
    return output


def unknown_imports(repository: Repository) -> list[str]:
    """Return the modules that a test file cannot be imported without, and that no known distribution has."""
    named = {
        *repository.project.local,
        *(canonicalize_name(Requirement(text).name) for text, _ in repository.project.needs),
    }
    return [
        name
        for name in _needed_modules(repository)
        if name not in _KNOWN and canonicalize_name(name) not in named and name not in _local(repository)
    ]


def _imported(repository: Repository) -> Iterator[tuple[str, str]]:
    """Yield the distributions that are imported at the top of a file, and Triton where there are kernels."""
    for name in _needed_modules(repository):
        if name in _KNOWN:
            yield _KNOWN[name], "imported, and not declared"
    if repository.kernels:
        yield "triton", "its kernels are written in Triton, which PyTorch's build for a CPU does not bring"


def _needed_modules(repository: Repository) -> list[str]:
    sources = (*repository.own, *repository.tests)
    return sorted({name for source in sources for name in source.always} - sys.stdlib_module_names)


def _local(repository: Repository) -> set[str]:
    """Return the names of modules that lie in the repository, so that they are no distribution."""
    paths = [source.path for source in (*repository.own, *repository.tests)]
    folders = {part for path in paths for part in path.relative_to(repository.root).parts[:-1]}
    beside = {path.name for path in repository.root.iterdir()}
    return {*folders, *beside, *(path.stem for path in paths), repository.module, "_pytest", "__main__"}
