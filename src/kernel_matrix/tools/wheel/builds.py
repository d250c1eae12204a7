"""Builds of PyTorch as a wheel sees them: the libraries that they load, and the symbols that these have.

They come from an installed PyTorch, from its wheel, or from a list that was kept of one: no PyTorch need be there.
"""

from __future__ import annotations

import json
import lzma
import re
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from packaging.version import InvalidVersion, Version

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import write_atomically
from kernel_matrix.tools.wheel import elf

_KEPT = "builds.xz"
_RANGE = re.compile(r"(\d+)\.(\d+)\.\.(\d+)\.(\d+)")
_LIBRARY = re.compile(r"torch/lib/[^/]+\.so[^/]*|nvidia/.+/lib/[^/]+\.so[^/]*")


@dataclass(frozen=True)
class Build:
    """One build of PyTorch: its version, its own libraries and all that are loaded with it, and the own ones' symbols.

    Libraries are known by their sonames.
    """

    version: str
    own: frozenset[str]
    libraries: frozenset[str]
    symbols: frozenset[str]

    @property
    def title(self) -> str:
        """Return it as a person names it."""
        return f"PyTorch {self.version}"


def chosen(texts: Sequence[str], sites: Sequence[str] = ()) -> tuple[list[Build], list[str]]:
    """Return the builds that the texts name, and the versions that no list has.

    A text is a version (``2.14``, ``2.13.0+cpu``), a range (``2.11..2.15``), a folder that PyTorch is installed in, its
    wheel, or a list. Without a text they are all that are kept. What is installed in one of the ``sites`` comes too.

    Raises:
        UserError: a text is none of these, or a file cannot be read.
    """
    kept = list(_listed(files("kernel_matrix.tools.wheel").joinpath(_KEPT).read_bytes()))
    found = {} if texts else {build.version: build for build in kept}
    unknown = []
    for text in (*texts, *sites):
        made = _of_path(Path(text)) if Path(text).exists() else None
        for version in [] if made is not None else _versions(text):
            of_version = [build for build in kept if _is(build.version, version)]
            unknown += [] if of_version else [version]
            found |= {build.version: build for build in of_version}
        found |= {build.version: build for build in made or ()}
    return list(found.values()), unknown


def _versions(text: str) -> list[str]:
    if match := _RANGE.fullmatch(text):
        (first, low), (last, high) = (map(int, match.group(1, 2)), map(int, match.group(3, 4)))
        if first == last and low <= high:
            return [f"{first}.{minor}" for minor in range(low, high + 1)]
    try:
        Version(text)
    except InvalidVersion:
        raise UserError(
            f"--torch {text}: this is no version, no range such as 2.11..2.15, and no file or folder that is here."
        ) from None
    return [text]


def _is(version: str, wanted: str) -> bool:
    return version == wanted or version.partition("+")[0] == wanted or version.startswith(f"{wanted}.")


def keep(builds: Iterable[Build], path: Path) -> None:
    """Write a list of builds. A symbol stands in it once, with the builds that have it."""
    builds = list(builds)
    named = [{"version": one.version, "own": sorted(one.own), "libraries": sorted(one.libraries)} for one in builds]
    head = json.dumps(named)
    everything = sorted(frozenset().union(*(build.symbols for build in builds)))
    lines = [f"{sum((name in one.symbols) << n for n, one in enumerate(builds)):x} {name}" for name in everything]
    write_atomically(path, lzma.compress("\n".join([head, *lines]).encode(), preset=9 | lzma.PRESET_EXTREME))


def _listed(content: bytes) -> Iterator[Build]:
    head, *lines = lzma.decompress(content).decode().split("\n")
    symbols = [(int(mask, 16), name) for mask, _, name in (line.partition(" ") for line in lines)]
    for number, one in enumerate(json.loads(head)):
        its = frozenset(name for mask, name in symbols if mask >> number & 1)
        yield Build(one["version"], frozenset(one["own"]), frozenset(one["libraries"]), its)


def _of_path(path: Path) -> list[Build]:
    """Return the builds in a folder, a wheel or a list."""
    try:
        if path.is_dir():
            return [_installed(path)]
        if path.suffix == ".whl":
            with tempfile.TemporaryDirectory(prefix="torch-") as folder, zipfile.ZipFile(path) as archive:
                wanted = [one for one in archive.namelist() if _LIBRARY.fullmatch(one) or one.endswith("/METADATA")]
                archive.extractall(folder, wanted)
                return [_installed(Path(folder))]
        return list(_listed(path.read_bytes()))
    except (OSError, ValueError, KeyError, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise UserError(f"--torch {path}: it cannot be read as PyTorch's symbols: {error}.") from None


def _installed(folder: Path) -> Build:
    """Return the build in a folder such as ``site-packages``, or in a folder of an environment that has one.

    Raises:
        UserError: there is none.
    """
    sites = [folder, *folder.glob("lib/python3*/site-packages")]
    site = next((one for one in sites if (one / "torch" / "lib").is_dir()), None)
    if site is None:
        raise UserError(f"--torch {folder}: PyTorch is not in this folder. Name its site-packages.")
    names = [path.name.removesuffix(".dist-info").split("-")[1] for path in sorted(site.glob("torch-*.dist-info"))]
    shared = [one for path in sorted((site / "torch" / "lib").glob("*.so*")) if (one := elf.read(path))]
    others = {one.soname: one for path in site.glob("nvidia/**/*.so*") if (one := elf.read(path))}
    own = {one.soname or one.path.name for one in shared} | {one.path.name for one in shared}
    loaded = own | {library for one in shared for library in one.needed}
    waiting = list(loaded - own)
    while waiting:  # what is loaded brings more: cuSPARSE brings nvJitLink
        for library in others[name].needed if (name := waiting.pop()) in others else ():
            if library not in loaded:
                loaded.add(library)
                waiting.append(library)
    symbols = frozenset().union(*(one.defined for one in shared))
    return Build(names[0] if names else str(folder), frozenset(own), frozenset(loaded), symbols)
