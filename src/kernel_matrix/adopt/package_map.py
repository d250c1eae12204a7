"""Read where a project's build system takes each package from: the name that is imported, and its files' folder."""

from __future__ import annotations

import configparser
import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from packaging.utils import canonicalize_name

from kernel_matrix.adopt import setup_script
from kernel_matrix.adopt.workspace import at, texts

_USUAL = ("src", "python")  # the folders of sources that need no word


class Placed(NamedTuple):
    """A package: the name that is imported, and the folder of its files."""

    module: str
    folder: str

    @property
    def is_renamed(self) -> bool:
        """Return whether the folder has another name than the package, so that Python does not find it there."""
        return PurePosixPath(self.folder).name != self.module


@dataclass(frozen=True)
class PackageMap:
    """The packages with their folders, the folders that packages are taken from, and names of packages alone."""

    placed: tuple[Placed, ...] = ()
    sources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def inside(self, folder: str) -> PackageMap:
        """Return the same for a project that lies in a folder of a repository, as it is seen from the top."""

        def seen(name: str) -> str:
            return PurePosixPath(folder, name).as_posix()

        placed = tuple(Placed(one.module, seen(one.folder)) for one in self.placed)
        return PackageMap(placed, tuple(map(seen, (*self.sources, *_USUAL, "."))), self.names)


NO_WORD = PackageMap()


def read(root: Path, tool: Mapping[str, Any], name: str) -> PackageMap:
    """Read the files of a project: the package with the project's name first, and each once.

    ``tool`` is the table of its pyproject.toml. A part of a package may lie elsewhere: only where the package itself is
    in no usual folder, the part's folder stands for it.
    """
    found = [*_setuptools(root, tool), *_hatch(tool), *_scikit_build(tool), *_poetry(tool), *_meson(root)]
    sources = [_plain(folder) for folder in (*_sources(root, tool), *(folder for name, folder in found if not name))]
    placed: dict[str, str] = {}
    for dotted, folder in sorted((one for one in found if one[0]), key=lambda one: "." in one[0]):
        module, _, part = dotted.partition(".")
        is_there = part and any((root / source / module).is_dir() for source in (".", *_USUAL, *sources))
        if module.isidentifier() and not is_there and next((root / folder).rglob("*.py"), None):
            placed.setdefault(module, _plain(folder))
    order = sorted(placed, key=lambda module: -likeness(module, name))
    return PackageMap(tuple(Placed(one, placed[one]) for one in order), tuple(sources), tuple(_names(tool)))


def likeness(module: str, name: str) -> int:
    """Return how well the name of a module agrees with the name of the project."""
    canonical = canonicalize_name(module)
    return 2 * (canonical == canonicalize_name(name)) or int(canonicalize_name(name).startswith(f"{canonical}-"))


def _plain(folder: str) -> str:
    return folder.strip("/").removeprefix("./") or "."


def _setuptools(root: Path, tool: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield ``package_dir`` of pyproject.toml, setup.cfg or setup.py; the empty name has the folder of all others."""
    yield from _pairs(at(tool, "setuptools", "package-dir"))
    lines = _of_setup_cfg(root, "options", "package_dir").replace(",", "\n").splitlines()
    yield from (
        (name.strip(), folder.strip()) for name, is_one, folder in (line.partition("=") for line in lines) if is_one
    )
    yield from _pairs((setup_script.words_of(root / "setup.py") or {}).get("package_dir"))


def _hatch(tool: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what hatchling renames, and then the folders that it takes as they are."""
    for table in (at(tool, "hatch", "build", "targets", "wheel"), at(tool, "hatch", "build")):
        for key in ("sources", "force-include"):
            yield from ((_dotted(into), folder) for folder, into in _pairs(at(table, key)))
        if isinstance(sources := at(table, "sources"), list):
            yield from (("", folder) for folder in texts(sources))
        yield from _as_they_are(at(table, "packages"))


def _scikit_build(tool: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    packages = at(tool, "scikit-build", "wheel", "packages")
    yield from ((_dotted(name), folder) for name, folder in _pairs(packages))
    yield from _as_they_are(packages if isinstance(packages, list) else [])


def _poetry(tool: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    packages = at(tool, "poetry", "packages")
    for table in packages if isinstance(packages, list) else ():
        include, above, into = (str(at(table, key) or "") for key in ("include", "from", "to"))
        folder = PurePosixPath(above, include.partition("*")[0])
        if include:
            yield _dotted(into) or folder.name.removesuffix(".py"), folder.as_posix()


# What meson-python installs: files into a folder of site-packages, or a folder.
_INSTALLED_FILES = re.compile(
    r"install_sources\s*\(\s*(?:files\s*\()?\s*\[?\s*'([^']+)'[^)]*?\)?[^)]*?\bsubdir\s*:\s*'([^']+)'", re.DOTALL
)
_INSTALLED_FOLDER = re.compile(
    r"install_subdir\s*\(\s*'([^']+)'[^)]*?install_dir\s*:[^,]*?get_install_dir\(\s*\)(?:\s*/\s*'([^']+)')?", re.DOTALL
)


def _meson(root: Path) -> Iterator[tuple[str, str]]:
    for path in sorted([root / "meson.build", *root.glob("*/meson.build"), *root.glob("*/*/meson.build")]):
        with contextlib.suppress(OSError):
            text, here = path.read_text(encoding="utf-8", errors="replace"), path.parent.relative_to(root)
            for file, into in _INSTALLED_FILES.findall(text):
                yield _dotted(into), (here / file).parent.as_posix()
            for folder, into in _INSTALLED_FOLDER.findall(text):
                yield _dotted(into) or PurePosixPath(folder).name, (here / folder).as_posix()


def _sources(root: Path, tool: Mapping[str, Any]) -> Iterator[str]:
    """Yield the folders that a build system takes packages from under their own names."""
    yield from texts(at(tool, "setuptools", "packages", "find", "where"))
    yield from _of_setup_cfg(root, "options.packages.find", "where").split()
    for keys in (
        ("maturin", "python-source"),
        ("pdm", "build", "package-dir"),
        ("pdm", "package-dir"),
        ("uv", "build-backend", "module-root"),
        ("py-build-cmake", "module", "directory"),
    ):
        yield from texts([at(tool, *keys)])


def _names(tool: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of packages that a build system looks for by itself."""
    for keys in (
        ("flit", "module", "name"),
        ("flit", "metadata", "module"),
        ("maturin", "module-name"),
        ("uv", "build-backend", "module-name"),
        ("py-build-cmake", "module", "name"),
    ):
        value = at(tool, *keys)
        yield from (name.partition(".")[0] for name in texts(value if isinstance(value, list) else [value]))


def _as_they_are(folders: object) -> Iterable[tuple[str, str]]:
    return ((PurePosixPath(folder).name, folder) for folder in texts(folders))


def _pairs(table: object) -> Iterator[tuple[str, str]]:
    """Yield the texts of a table by their keys."""
    for key, value in table.items() if isinstance(table, dict) else ():
        if isinstance(key, str) and isinstance(value, str):
            yield key, value


def _dotted(folder: str) -> str:
    """Return the package that lies in a folder of site-packages."""
    return ".".join(PurePosixPath(folder.strip("/")).parts)


def _of_setup_cfg(root: Path, section: str, key: str) -> str:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    with contextlib.suppress(configparser.Error, ValueError):
        parser.read(root / "setup.cfg", encoding="utf-8")
    return parser.get(section, key, fallback="")
