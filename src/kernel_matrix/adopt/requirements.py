"""Decide what the environment of the tests needs, and say of each line where it comes from."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kernel_matrix.adopt.repository import Repository, files_of

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
    **{name: name for name in ("chex", "expecttest", "flax", "matplotlib", "networkx", "numba", "optax")},
    **{name: name for name in ("psutil", "requests", "setuptools", "sympy", "taichi", "xarray", "zarr")},
    **{name: name for name in ("pytest_asyncio", "pytest_benchmark", "pytest_cases", "pytest_mock")},
    "tvm": "apache-tvm",
    "yaml": "pyyaml",
    "PIL": "pillow",
    "warp": "warp-lang",
    "cutlass": "nvidia-cutlass-dsl",
    "pkg_resources": "setuptools<81",  # later ones have it no more
    "cv2": "opencv-python-headless",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "attr": "attrs",
    "dateutil": "python-dateutil",
    "git": "gitpython",
    "Cython": "cython",
    "bs4": "beautifulsoup4",
    "dotenv": "python-dotenv",
}
# Modules that several distributions have, or that need more than an installation: with how their names begin.
_SEVERAL = {
    "cupy": ("cupy",),
    "cv2": ("opencv-",),
    "google": ("protobuf", "googleapis-", "google-"),
    "flash_attn": ("flash-attn",),
    "mpl_toolkits": ("matplotlib",),
    "pynvml": ("nvidia-ml-py", "pynvml"),
    "cuda": ("cuda-", "numba-cuda"),
    "tensorflow": ("tensorflow", "tf-nightly"),
}
# What many distributions say of themselves, and their modules do not: absl-py, pyserial, python-jose.
_OF_PYTHON = re.compile(r"^(?:python-|py-?)|-py(?:thon)?$")
# What people list next to the tests' needs, and no test needs if none imports it.
_TOOLS = re.compile(
    r"(ruff|black|isort|flake8.*|pylint|mypy|pyright|pre-commit|prek|coverage|codespell|build|twine|bump.*|tox|nox"
    r"|mkdocs.*|sphinx.*|furo|myst.*|types-.*|jupyter.*|ipykernel|ipython|notebook|nbconvert|cibuildwheel)"
)


def distribution_of(module: str) -> str:
    """Return the distribution that has a module, as far as it is known."""
    return Requirement(_KNOWN.get(module, module)).name


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


# What a suite calls its own files: where none of this name is here, no index has it.
_OF_A_SUITE = re.compile(r"_?(conftest|tests?|test(ing)?_\w+|utils?|helpers?|common)")


def lacking_files(repository: Repository) -> list[str]:
    """Return the modules that are files of the suite by their names, and that the repository does not have."""
    return [name for name in _unknown(repository) if _OF_A_SUITE.fullmatch(name)]


def unknown_imports(repository: Repository) -> list[str]:
    """Return the modules that a test file cannot be imported without, and that no known distribution has."""
    return [name for name in _unknown(repository) if not _OF_A_SUITE.fullmatch(name)]


def _unknown(repository: Repository) -> list[str]:
    named = {
        *repository.project.local,
        *(canonicalize_name(Requirement(text).name) for text, _ in repository.project.needs),
    }
    named |= {_OF_PYTHON.sub("", name) for name in named}
    local = _local(repository)
    return [
        name
        for name in _needed_modules(repository)
        if name not in _KNOWN
        and canonicalize_name(name) not in named
        and name not in local
        and not any(one.startswith(_SEVERAL.get(name, ("\0",))) for one in named)
    ]


def _imported(repository: Repository) -> Iterator[tuple[str, str]]:
    """Yield the distributions that are imported at the top of a file, and Triton where there are kernels."""
    local, declared = _local(repository), [canonicalize_name(Requirement(t).name) for t, _ in repository.project.needs]
    for name in _needed_modules(repository):
        if any(one.startswith(_SEVERAL.get(name, ("\0",))) for one in declared):
            continue
        if name in _KNOWN and name not in local:
            yield _KNOWN[name], "imported, and not declared"
    if repository.kernels:
        yield "triton", "its kernels are written in Triton, which PyTorch's build for a CPU does not bring"


def _needed_modules(repository: Repository) -> list[str]:
    sources = (*repository.own, *repository.tests)
    return sorted({name for source in sources for name in source.always} - sys.stdlib_module_names)


def _local(repository: Repository) -> set[str]:
    """Return the names of modules that lie in the repository, so that they are no distribution."""
    paths = [*files_of(repository.root, (".py", ".pyx", ".so"))]
    folders = {part for path in paths for part in path.relative_to(repository.root).parts[:-1]}
    beside = {path.name for path in repository.root.iterdir()}
    return {*folders, *beside, *(path.stem for path in paths), repository.module, "_pytest", "__main__"}
