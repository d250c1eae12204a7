"""Find out how a project builds the modules that it has in C, C++ or CUDA, and what that needs."""

from __future__ import annotations

import configparser
import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernel_matrix.adopt import setup_script
from kernel_matrix.base import git

ORIGIN = "what the build needs"
_BACKENDS = ("scikit_build_core", "mesonpy", "maturin", "py_build_cmake", "skbuild", "nanobind")  # that compile
_EXTENSIONS = re.compile(r"\bext_modules\b|\b(Cpp|CUDA|SYCL|CMake)?Extension\(|\bcythonize\(|\brust_extensions\b")
_TESTS_OF_CMAKE = re.compile(r"(?i)^\s*(enable_testing\s*\(|include\s*\(\s*CTest\s*\))", re.MULTILINE)
_PROJECT_OF_CMAKE = re.compile(r"(?i)^\s*project\s*\(\s*\"?([\w.-]+)", re.MULTILINE)
_ASKED_OF_CMAKE = re.compile(
    r"(?i)^\s*cmake_minimum_required\s*\(\s*VERSION\s+(?:[\d.]+\.\.\.)?(\d+)\.(\d+)", re.MULTILINE
)
# Where a module that is compiled is named: CMake's targets, meson.build, setup.py, what its source says for Python.
_MADE = re.compile(
    r"(?:add_module|add_library|extension_module|Extension)\s*\(\s*(?:name\s*=\s*)?['\"]?([A-Za-z][\w.]*)"
    r"|_MODULE(?:_\w+)?\s*\(\s*([A-Za-z]\w*)|\bPyInit_(\w+)|\bOUTPUT_NAME\s+\"?(\w+)|\[pymodule\][^{]*?\bfn\s+(\w+)"
)
MADE_OF = ("CMakeLists.txt", ".cmake", "meson.build", "setup.py", *(".c", ".cc", ".cpp", ".cxx", ".cu", ".hip", ".rs"))
_VERSIONS = ("__init__.py", "_version.py", "version.py", "__about__.py", "about.py")  # where a package asks for its own
# The file that a build writes the version into: in setup.py, and as the end of a key of pyproject.toml.
_OF_SCRIPT = re.compile(r"(?:write_to|version_file)['\"]?\s*[:=]\s*['\"]([^'\"]+)")
_OF_TABLE = re.compile(r".*\.(write[-_]to|version[-_]file)|write\.file")
UNPACKED = "_package"  # a folder for a package whose own folder has another name
_INSTALLED = ("pip install --no-build-isolation --no-deps .",)
_EDITABLE = ("pip install --no-build-isolation --no-deps -e .",)
# What an editable install of these leaves outside of the sources. A library that a package looks for next to its own
# files is there only where the wheel is unpacked over them.
_APART = ("scikit_build_core", "mesonpy", "py_build_cmake")
_UNPACKED = (
    "pip wheel --no-build-isolation --no-deps -w _wheel .",
    "pip install --no-deps _wheel/*.whl",
    "python -m zipfile -e _wheel/*.whl {source}",
)


@dataclass(frozen=True)
class Compiled:
    """The way a project is built: commands, what they need, and of a CMake project the folder that CTest reads then."""

    commands: tuple[str, ...] = ()
    needs: tuple[tuple[str, str], ...] = ()  # a requirement, and where it stands
    name: str = ""  # of a project of CMake
    ctest: str | None = None

    def inside(self, folder: str) -> Compiled:
        """Return the same for a project that lies in a folder."""
        here = " ."
        commands = (f"{one.removesuffix(here)} ./{folder}" if one.endswith(here) else one for one in self.commands)
        return replace(self, commands=() if self.ctest else tuple(commands), ctest=None)

    def onto(self, source: str) -> Compiled:
        """Return the same for a package whose sources lie in a folder of the repository."""
        return replace(self, commands=tuple(command.replace("{source}", source) for command in self.commands))


NOT_COMPILED = Compiled()


def modules_in(paths: Iterable[Path]) -> set[str]:
    """Return the modules that the files of builds and the sources in these paths say are made of them."""
    found = (match for path in paths for match in _MADE.finditer(_text(path)))
    return {next(filter(None, match.groups())).partition(".")[0] for match in found}


def look(root: Path, document: Mapping[str, Any], *, is_renamed: bool = False) -> Compiled:
    """Return how the project in a folder is built; ``document`` is its pyproject.toml.

    ``is_renamed``: its package lies in a folder of another name, so that only its wheel has it under its own.
    """
    system = document.get("build-system", {})
    script, cmake = _text(root / "setup.py"), _text(root / "CMakeLists.txt")
    has_modules = document.get("tool", {}).get("setuptools", {}).get("ext-modules")
    backend = str(system.get("build-backend", ""))
    if backend.startswith(_BACKENDS) or has_modules or _EXTENSIONS.search(script):
        more = ["ninja"] if "cpp_extension" in script else []
        return Compiled(_UNPACKED if backend.startswith(_APART) or is_renamed else _EDITABLE, _needs(system, *more))
    if is_renamed or _is_version_made(root, document, script):
        return Compiled(_UNPACKED, _needs(system))
    if _reads_own_metadata(root, document) or _has_entry_points(root, document):
        return Compiled(_INSTALLED, _needs(system))  # hatchling's editable install needs more
    if not document and not script and _TESTS_OF_CMAKE.search(cmake):
        named = _PROJECT_OF_CMAKE.search(cmake)
        commands = ("cmake -S . -B _build -G Ninja -DCMAKE_BUILD_TYPE=Release", "cmake --build _build")
        needs = [(text, ORIGIN) for text in (_cmake(cmake), "ninja")]
        return Compiled(commands, tuple(needs), named[1] if named else root.name, "_build")
    return NOT_COMPILED


def _is_version_made(root: Path, document: Mapping[str, Any], script: str) -> bool:
    """Return whether a build writes a module with the version, which a checkout does not have.

    setuptools-scm, hatch-vcs, PDM and versioningit name the file.
    """
    named = _OF_SCRIPT.findall(script) if "use_scm_version" in script else []
    tables: list[tuple[str, Any]] = [("", document.get("tool", {}))]
    for above, table in tables:  # more are added meanwhile
        tables += [(key, value) for key, value in table.items() if isinstance(value, Mapping)]
        texts = ((f"{above}.{key}", value) for key, value in table.items() if isinstance(value, str))
        named += [value for key, value in texts if _OF_TABLE.fullmatch(key)]
    return any(not (root / name).exists() for name in named) or bool(git.ignored(root, named))


def _needs(system: Mapping[str, Any], *more: str) -> tuple[tuple[str, str], ...]:
    """Return what a build needs by the table ``build-system``."""
    requires = ("pip", *system.get("requires", ("setuptools",)), *more)
    return tuple((str(text), ORIGIN) for text in requires)


def _reads_own_metadata(root: Path, document: Mapping[str, Any]) -> bool:
    """Return whether a package asks for its own version where it is imported, which only an installed one has."""
    name = re.sub(r"[-_.]+", "[-_.]+", str(document.get("project", {}).get("name", "")))
    asks = re.compile(
        rf"\w\(\s*['\"]{name}['\"]|(version|metadata|distribution|requires)\(\s*(__name__|__package__)\b", re.IGNORECASE
    )
    files = (path for depth in ("*", "*/*", "*/*/*") for path in root.glob(f"{depth}/*.py") if path.name in _VERSIONS)
    texts = (_text(path) for path in files if name)
    return any("metadata" in text and "except" not in text and asks.search(text) for text in texts)


def _has_entry_points(root: Path, document: Mapping[str, Any]) -> bool:
    """Return whether others find parts of a package by its metadata: a plugin of pytest, a backend of PyTorch."""
    project, tool = document.get("project", {}), document.get("tool", {})
    groups = {*project.get("entry-points", {}), *tool.get("poetry", {}).get("plugins", {})}
    cfg = configparser.ConfigParser(interpolation=None, strict=False)
    with contextlib.suppress(configparser.Error):
        cfg.read_string(_text(root / "setup.cfg"))
    groups |= {*(cfg["options.entry_points"] if cfg.has_section("options.entry_points") else ())}
    given = (setup_script.words_of(root / "setup.py") or {}).get("entry_points")
    groups |= {*given} if isinstance(given, dict) else set()
    return bool(groups - {"console_scripts", "gui_scripts"})


def _cmake(text: str) -> str:
    """Return the requirement of CMake: release 4 reads no project that is written for one before 3.5."""
    asked = _ASKED_OF_CMAKE.search(text)
    return "cmake<4" if asked and (int(asked[1]), int(asked[2])) < (3, 5) else "cmake"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
