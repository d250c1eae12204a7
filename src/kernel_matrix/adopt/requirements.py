"""Decide what the environment of the tests needs, and say of each line where it comes from."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kernel_matrix.adopt import compiled
from kernel_matrix.adopt.compiled import MADE_OF, modules_in
from kernel_matrix.adopt.repository import Repository
from kernel_matrix.adopt.sources import files_of

# What a job needs. pytest runs the tests, by classes that release 8 has first; the other two compare numbers.
_JOB = ("pytest>=8", "numpy", "ml_dtypes")
OF_JOBS = "every job"  # who asks for these
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
    "lal": "lalsuite",
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
# What has no wheel for a machine without CUDA: it is built against CUDA, or its build fetches it.
_BUILT_WITH_CUDA = re.compile(
    r"cupy|flash-attn.*|tensorrt.*|pycuda|transformer-engine.*|apex|mamba-ssm|causal-conv1d|flashinfer.*|xformers"
    r"|deepspeed|vllm|sgl-kernel|deep-gemm|grouped-gemm|torch-scatter|torch-sparse"
)


def distribution_of(module: str) -> str:
    """Return the distribution that has a module, as far as it is known."""
    return Requirement(_KNOWN[module]).name if module in _KNOWN else module


def lines(repository: Repository, without: Collection[str] = ()) -> list[str]:
    """Return the lines of the file that the lock is made from, with a comment before the lines of each origin.

    What the tests ask for and do without is taken where a list of the repository names it, but not what is built with
    CUDA, and not ``without``.
    """
    origins: dict[str, list[str]] = {}
    left: dict[str, list[str]] = {}
    taken: set[str] = set()
    needed = _needed_modules(repository)
    imported = {*needed, *_optional_modules(repository)}
    of_lists = [*_of_lists(repository, needed)]
    for text, origin in _of_lists(repository, imported.difference(needed)):
        name = canonicalize_name(Requirement(text).name)
        if _BUILT_WITH_CUDA.fullmatch(name):
            left.setdefault(origin, []).append(f"{name}, which is built with CUDA")
        elif text not in without:
            of_lists.append((text, origin))
    needs = (*repository.project.needs, *of_lists, *_imported(repository), *((name, OF_JOBS) for name in _JOB))
    for text, origin in needs:
        name = canonicalize_name(Requirement(text).name)
        if name == _own_name(repository):
            continue  # an extra that names the package itself with other extras
        if _TOOLS.fullmatch(name) and not any(_has(name, module) for module in imported):
            left.setdefault(origin, []).append(f"{name}, which nothing here imports")
            continue
        if other := _for_a_job(text):
            left.setdefault(origin, []).append(f"{name}, as it wants {Requirement(text).specifier} and a job {other}")
            continue
        is_there = any(text in texts for texts in origins.values())
        if not is_there and (name not in taken or _is_one_more_limit(text, origin, repository, origins)):
            origins.setdefault(origin, []).append(text)
        taken.add(name)
    return [
        "# What the environment of the tests needs. `kernel-matrix lock` makes the lock in this folder from it.",
        *_written(origins, left),
        *_not_taken(repository, taken.union(one.partition(",")[0] for names in left.values() for one in names)),
    ]


def against_a_job(repository: Repository) -> Iterator[str]:
    """Yield what the repository asks for and no job can have, in a sentence each."""
    for text, origin in dict.fromkeys((*repository.project.needs, *_of_lists(repository, _needed_modules(repository)))):
        if other := _for_a_job(text):
            one = Requirement(text)
            yield f"not kept: {one.name}: {origin} wants {one.specifier}, and a job needs {other}"


def _for_a_job(text: str) -> str:
    """Return what a job needs of a distribution, where no version of it is in both; else an empty text."""
    one = Requirement(text)
    for need in map(Requirement, _JOB):
        both = need.specifier & one.specifier
        named = {part.version.removesuffix(".*") for part in both}
        tried = ("99999", *named, *(f"{version}{more}" for version in named for more in (".1", ".0.1")))
        if need.name == canonicalize_name(one.name) and _holds(text) and not any(both.filter(tried, prereleases=True)):
            return str(need.specifier)
    return ""


def _is_one_more_limit(text: str, origin: str, repository: Repository, origins: Mapping[str, list[str]]) -> bool:
    """Return whether a requirement limits what an earlier one asked for: pip installs both together.

    What a build needs may go with no other, as pip builds in an environment of its own. A list has preferences alone,
    and so is a version that the tests want: pins of a repository are kept where they can be.
    """
    one = Requirement(text)
    if not one.specifier or text in _JOB:
        return bool(one.specifier)
    of_build = {canonicalize_name(Requirement(line).name) for line in origins.get(compiled.ORIGIN, ())}
    is_of_tests = origin.startswith(("the extra '", "the group '"))
    if is_of_tests and any(part.operator.startswith("==") for part in one.specifier):
        return False
    is_declared = (text, origin) in repository.project.needs and origin != compiled.ORIGIN
    return is_declared and not (is_of_tests and canonicalize_name(one.name) in of_build)


def _written(origins: Mapping[str, list[str]], left: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield the requirements by their origins, and what of an origin is left out."""
    for origin in dict.fromkeys((*origins, *left)):
        tools = f"; left out: {', '.join(left[origin])}" if origin in left else ""
        yield from (f"# {origin}{tools}", *origins.get(origin, ()))


def _not_taken(repository: Repository, named: set[str]) -> Iterator[str]:
    """Yield which lists have more than these distributions, and which imports no list explains."""
    named = {*named, _own_name(repository)}
    others = {
        where for text, where in repository.project.lists if canonicalize_name(Requirement(text).name) not in named
    }
    if others:
        yield f"# Of these lists only what is imported is taken: {'; '.join(sorted(others))}"
    if unknown := unknown_imports(repository):
        yield f"# The tests import these too, and no file says which distributions they are: {', '.join(unknown)}"


# What a suite calls its own files: where none of this name is here, no index has it.
_OF_A_SUITE = re.compile(r"_?(conftest|tests?|test(ing)?_\w+|utils?|helpers?|common)")


def lacking_files(repository: Repository) -> list[str]:
    """Return the modules that are files of the suite by their names, and that the repository does not have."""
    return [name for name in _unknown(repository) if _OF_A_SUITE.fullmatch(name)]


def unknown_imports(repository: Repository) -> list[str]:
    """Return the modules that a test file cannot be imported without, and that no known distribution has."""
    return [name for name in _unknown(repository) if not _OF_A_SUITE.fullmatch(name)]


def asked_for(repository: Repository, distributions: Iterable[str]) -> dict[str, int]:
    """Return what tests ask for and do without that no list names, with the number of files that ask.

    ``distributions`` are those of the lock.
    """
    declared = (*repository.project.needs, *repository.project.lists)
    named = {*distributions, *repository.project.local, *(Requirement(text).name for text, _ in declared)}
    left = {*sys.stdlib_module_names, *_local(repository)}
    counts = Counter(name for source in repository.tests for name in source.asked - left)
    return {name: count for name, count in counts.items() if not any(_has(one, name) for one in named)}


def _unknown(repository: Repository) -> list[str]:
    declared = (*repository.project.needs, *repository.project.lists)
    named = {*repository.project.local, *(Requirement(text).name for text, _ in declared)}
    local = _local(repository)
    unknown = [
        name
        for name in _needed_modules(repository)
        if name not in _KNOWN and name not in local and not any(_has(one, name) for one in named)
    ]
    made = modules_in(files_of(repository.root, MADE_OF)) if unknown else set()
    return [name for name in unknown if name not in made]


def _has(distribution: str, module: str) -> bool:
    """Return whether a distribution has a module, as far as it is known. ``ruamel.yaml`` has a part of ``ruamel``."""
    name, own = canonicalize_name(distribution), canonicalize_name(module)
    return (
        name in (own, canonicalize_name(distribution_of(module)))
        or own in (_OF_PYTHON.sub("", name), distribution.rpartition(".")[0].partition(".")[0])
        or name.startswith(_SEVERAL.get(module, ("\0",)))
    )


def _own_name(repository: Repository) -> str:
    return canonicalize_name(repository.project.name or repository.module)


def _of_lists(repository: Repository, modules: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield for each module that no need has what the first list of the repository that names it says of it."""
    needed = {Requirement(text).name for text, _ in repository.project.needs}
    lists = [(Requirement(text).name, text, where) for text, where in repository.project.lists]
    packages = {path.parent.name for path in files_of(repository.root, ("__init__.py",)) if _is_top(path.parent)}
    for module in sorted({*modules} - packages - {repository.module}):
        if not any(_has(name, module) for name in needed):
            named = [(text, where) for name, text, where in lists if _has(name, module)]
            yield from sorted(named, key=lambda one: not _holds(one[0]))[:1]


def _holds(text: str) -> bool:
    """Return whether a requirement holds on this machine."""
    marker = Requirement(text).marker
    return marker is None or marker.evaluate({"extra": ""})


def _imported(repository: Repository) -> Iterator[tuple[str, str]]:
    """Yield the distributions that are imported at the top of a file, and Triton where there are kernels."""
    local, declared = _local(repository), (*repository.project.needs, *repository.project.lists)
    named = {Requirement(text).name for text, _ in declared}
    for name in _needed_modules(repository):
        if name in _KNOWN and name not in local and not any(_has(one, name) for one in named):
            yield _KNOWN[name], "imported, and not declared"
    if repository.kernels:
        yield "triton", "its kernels are written in Triton, which PyTorch's build for a CPU does not bring"


def _needed_modules(repository: Repository) -> list[str]:
    sources = (*repository.own, *repository.tests)
    return sorted({name for source in sources for name in source.always} - sys.stdlib_module_names)


def _optional_modules(repository: Repository) -> set[str]:
    """Return what the tests import anywhere, or are skipped without."""
    named = {name for source in repository.tests for name in (*source.imports, *source.asked)}
    return named - sys.stdlib_module_names


def _is_top(folder: Path) -> bool:
    """Return whether a folder is no part of a package: kern/jax is imported as kern.jax, and jax is another."""
    return not (folder.parent / "__init__.py").exists()


def _local(repository: Repository) -> set[str]:
    """Return the names of modules that lie in the repository, so that they are no distribution."""
    paths = [*files_of(repository.root, (".py", ".pyx", ".so"))]
    below = {folder for path in paths for folder in path.parents if folder.is_relative_to(repository.root)}
    folders = {folder.name for folder in below if _is_top(folder)}
    beside = {path.name for path in repository.root.iterdir()}
    return {*folders, *beside, *(path.stem for path in paths), repository.module, "_pytest", "__main__"}
