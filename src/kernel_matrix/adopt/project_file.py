"""Read what a project says of itself: its name, its Python, what it depends on, and where its tests are.

Where no file says what it depends on, PKG-INFO does, or a build of its source archive by uv.
"""

from __future__ import annotations

import configparser
import contextlib
import os
import re
import shutil
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from pathlib import Path
from typing import Any

from packaging.metadata import RawMetadata, parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from kernel_matrix.adopt import compiled, declared, package_map, setup_script
from kernel_matrix.adopt.compiled import NOT_COMPILED, Compiled
from kernel_matrix.adopt.package_map import NO_WORD, PackageMap
from kernel_matrix.adopt.workspace import at, document_of, local_to, texts
from kernel_matrix.base.errors import UserError
from kernel_matrix.run.environments.venv import uv
from kernel_matrix.run.executors import InstallError

# The names that people give to what the tests need; the first of them that there is counts.
_TEST_NAMES = ("test", "tests", "testing", "dev", "develop", "development")
_FILES = ("pyproject.toml", "setup.cfg", "setup.py")
_ERROR_TYPE = re.compile(r"^\w+(?:Error|Exception): ")
PYTHON_FILES = ("test_*.py", "*_test.py")


@dataclass(frozen=True)
class ProjectFile:
    """A project by its own words; empty where it says nothing."""

    name: str = ""
    python: str = ""
    needs: tuple[tuple[str, str], ...] = ()  # a requirement, and where it stands
    lists: tuple[tuple[str, str], ...] = ()  # the same for all lists of the repository: what is imported is taken
    test_folders: tuple[str, ...] = ()
    packages: PackageMap = NO_WORD  # where its packages lie, by the same files
    compiled: Compiled = NOT_COMPILED
    notes: tuple[str, ...] = ()  # a sentence for each thing that could not be read, or is no case
    python_files: tuple[str, ...] = PYTHON_FILES  # the names of the files that pytest takes for tests
    local: tuple[str, ...] = ()  # distributions that lie in folders, so that no index is asked for them


def read(root: Path) -> ProjectFile:
    """Read the files of a project; a folder without any is a project that says nothing.

    Raises:
        UserError: pyproject.toml cannot be read.
    """
    document = _pyproject(root)
    project = document.get("project", {})
    metadata, origin, note = _metadata(root, project)
    if note and (script := setup_script.read(root / "setup.py")):
        metadata, origin = script, "setup.py, which was read and not run"
        note = f"setup.py was read, and not run: {_ERROR_TYPE.sub('', note.partition(': ')[2])}"
    own, extras = by_extra(metadata)
    packages = package_map.read(root, document.get("tool", {}), str(project.get("name") or metadata.get("name", "")))
    how = compiled.look(root, document, is_renamed=any(one.is_renamed for one in packages.placed[:1]))
    needs = [
        *how.needs,
        *((text, "pyproject.toml, dependencies") for text in project.get("dependencies", ())),
        *((text, origin) for text in own),
        *_test_needs(document.get("dependency-groups", {}), {**project.get("optional-dependencies", {}), **extras}),
    ]
    lists = [*declared.lists(root, document, extras)]
    local, own_name = local_to(root), frozenset({canonicalize_name(str(project.get("name", "")))})
    folders = _folders(root, needs, local)
    return ProjectFile(
        str(project.get("name") or metadata.get("name", "") or how.name),
        str(project.get("requires-python") or metadata.get("requires_python", "")),
        tuple(_from_indexes(needs, local, own_name)),
        tuple(_from_indexes(lists, local, own_name)),
        tuple(_test_folders(root, document)),
        packages,
        how,
        tuple(filter(None, (note, _of_doctests(root, document), *starmap(_said, folders.items())))),
        tuple(_settings(root, document, "python_files")) or PYTHON_FILES,
        tuple(_folders(root, [*needs, *lists], local)),
    )


def below(root: Path, folder: Path) -> ProjectFile:
    """Return the project that lies in a folder of a repository, with its folders as they are seen from the top.

    Raises:
        UserError: its pyproject.toml cannot be read.
    """
    project, inner = read(folder), folder.relative_to(root).as_posix()

    def seen(folders: Iterable[str]) -> tuple[str, ...]:
        return tuple(Path(inner, name).as_posix() for name in folders)

    return replace(
        project,
        test_folders=seen(project.test_folders),
        packages=project.packages.inside(inner),
        compiled=project.compiled.inside(inner),
    )


def _from_indexes(
    needs: Iterable[tuple[str, str]], local: Mapping[str, Path], seen: frozenset[str]
) -> Iterable[tuple[str, str]]:
    """Yield what an index has of some needs. In place of what lies in a folder, what that needs is taken."""
    for text, origin in needs:
        if not _is_requirement(text):
            continue
        name = canonicalize_name(Requirement(text).name)
        if name in local:
            further = texts(at(document_of(local[name]), "project", "dependencies")) if name not in seen else []
            yield from _from_indexes([(one, f"what {name} needs") for one in further], local, seen | {name})
        elif not (Requirement(text).url or "").startswith("file:"):
            yield text, origin


def _folders(root: Path, needs: Iterable[tuple[str, str]], local: Mapping[str, Path]) -> dict[str, str]:
    """Return the folder of each need that lies in one, by its canonical name."""
    found: dict[str, str] = {}
    for requirement in (Requirement(text) for text, _ in needs if _is_requirement(text)):
        name, url = canonicalize_name(requirement.name), requirement.url or ""
        if name in local:
            found[name] = Path(os.path.relpath(local[name], root)).as_posix()
        elif url.startswith("file:"):
            found[name] = url.removeprefix("file:").removeprefix("//")
    return found


def _said(name: str, folder: str) -> str:
    return f"no index is asked for {name}, which lies in {folder}: `build` in matrix.yaml can install it"


def _pyproject(root: Path) -> dict[str, Any]:
    path = root / "pyproject.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}. It says what the package needs.") from None
    except ValueError as error:
        raise UserError(f"{path}: this is not TOML: {str(error).splitlines()[0]}. Correct it first.") from None


def _metadata(root: Path, project: Mapping[str, Any]) -> tuple[RawMetadata, str, str]:
    """Return what :func:`metadata_of` does where the package's files do not say what it depends on; else nothing."""
    dynamic = set(project.get("dynamic", ())) & {"dependencies", "optional-dependencies"}
    if not any((root / name).is_file() for name in _FILES) or (project and not dynamic):
        return {}, "", ""
    return metadata_of(root)


def _test_needs(groups: Mapping[str, Any], extras: Mapping[str, Sequence[str]]) -> Iterable[tuple[str, str]]:
    """Return what the tests need: of an extra, and of a dependency group."""
    for kind, tables in (("extra", extras), ("group", groups)):
        name = next((name for name in _TEST_NAMES if tables.get(name)), None)
        if name is not None:
            texts = _group(groups, name) if kind == "group" else tables[name]
            yield from ((text, f"the {kind} '{name}'") for text in texts)


def _group(groups: Mapping[str, Any], name: str, above: Sequence[str] = ()) -> Iterable[str]:
    """Yield the requirements of a dependency group, and of those that it includes."""
    for entry in groups.get(name, ()) if name not in above else ():
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict):
            yield from _group(groups, str(entry.get("include-group", "")), (*above, name))


def _is_requirement(text: object) -> bool:
    try:
        Requirement(str(text))
    except InvalidRequirement:
        return False
    return True


def _test_folders(root: Path, document: Mapping[str, Any]) -> Iterable[str]:
    """Yield the folders that pytest is configured with; a file that it could not read names none."""
    for text in _settings(root, document, "testpaths"):
        yield text.strip("/").removeprefix("./") or "."


def _of_doctests(root: Path, document: Mapping[str, Any]) -> str:
    """Return the sentence about doctests where pytest is told to run those of all modules; empty where it is not."""
    asked = {"--doctest-modules", "--doctest-plus", "--xdoctest"} & {*_settings(root, document, "addopts")}
    return f"of the doctests ({min(asked)}) only those in the suite's folder are cases" if asked else ""


def _settings(root: Path, document: Mapping[str, Any], key: str) -> Iterable[str]:
    """Yield the words of a setting of pytest, of all files that can have it."""
    options = document.get("tool", {}).get("pytest", {})
    named = [options.get(key) or options.get("ini_options", {}).get(key, ())]
    for name in ("pytest.toml", ".pytest.toml"):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            named.append(tomllib.loads((root / name).read_text(encoding="utf-8")).get("pytest", {}).get(key))
    for name, section in (("pytest.ini", "pytest"), ("tox.ini", "pytest"), ("setup.cfg", "tool:pytest")):
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        with contextlib.suppress(configparser.Error, ValueError):
            parser.read(root / name, encoding="utf-8")
            named.append(parser.get(section, key, fallback=""))
    for value in named:
        words = value.split() if isinstance(value, str) else value if isinstance(value, list) else ()
        yield from (word for word in words if isinstance(word, str) and word)


_FILE = "PKG-INFO"
# What is not copied for a build: large, or none of the source.
_LEFT = (".*", "__pycache__", "build", "dist", "docs", "node_modules", "*.egg-info", "benchmark*", "data", "*.so")
_VARIABLES = {
    "SETUPTOOLS_SCM_PRETEND_VERSION": "0",
    "HATCH_VCS_PRETEND_VERSION": "0",
    "PDM_BUILD_SCM_VERSION": "0",
    "NO_COLOR": "1",
}


def metadata_of(root: Path) -> tuple[RawMetadata, str, str]:
    """Return the metadata of the package in a folder, and where it stands; and a sentence if there is none."""
    path = root / _FILE  # in an unpacked source archive
    if path.is_file():
        return parse_email(path.read_text(encoding="utf-8", errors="replace"))[0], _FILE, ""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "source")
        shutil.copytree(root, copy, ignore=shutil.ignore_patterns(*_LEFT), symlinks=True, ignore_dangling_symlinks=True)
        try:
            uv("build", "--sdist", "--out-dir", folder, str(copy), variables=_VARIABLES)
            return parse_email(_in_archive(next(Path(folder).glob("*.tar.gz"))))[0], "the package's own build", ""
        except (InstallError, OSError, StopIteration, KeyError, tarfile.TarError) as error:
            reason = why_not_built(str(error)) or type(error).__name__
            text = f"What the package depends on is not known, because its source archive cannot be built: {reason}"
            return {}, "", text.replace(folder, "")


def why_not_built(printed: str) -> str:
    """Return the one line that says why a build failed: of the build backend; if that printed nothing, of uv."""
    of_backend, _, of_uv = printed.partition("\nerror: ")
    lines = [line for line in of_backend.splitlines()[1:] if line.strip() and not line.startswith("Building ")]
    traces = [number for number, line in enumerate(lines) if line.startswith("Traceback ")]
    said = [line for line in lines if not line[0].isspace()]
    if traces:
        said = [line for line in lines[traces[-1] + 1 :] if not line[0].isspace()][:1]
    causes = re.findall(r"^ *(?:cause|Caused by): (.*)", of_uv, re.MULTILINE)
    return [*printed.splitlines()[-1:], *of_uv.splitlines()[:1], *causes, *said][-1].strip() if printed.strip() else ""


def _in_archive(archive: Path) -> str:
    """Return the text of the file at the top of a source archive."""
    with tarfile.open(archive) as files:
        name = min((name for name in files.getnames() if name.endswith(f"/{_FILE}")), key=len)
        member = files.extractfile(name)
        return member.read().decode("utf-8", "replace") if member else ""


def by_extra(metadata: RawMetadata) -> tuple[list[str], dict[str, list[str]]]:
    """Return the requirements of a package that hold here without an extra, and the requirements of each extra."""
    needs: list[str] = []
    extras: dict[str, list[str]] = {}
    for line in filter(_is_requirement, metadata.get("requires_dist", ())):
        requirement = Requirement(line)
        marker, requirement.marker = requirement.marker, None
        if marker is None or marker.evaluate({"extra": ""}):
            needs.append(line)
            continue
        for extra in metadata.get("provides_extra", ()):
            if marker.evaluate({"extra": extra}):
                extras.setdefault(extra, []).append(str(requirement))
                break
    return needs, extras
