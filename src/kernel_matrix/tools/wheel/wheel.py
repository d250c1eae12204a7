"""Open a built wheel: its shared objects with their code for GPUs, its tags, and what its metadata says."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from functools import cached_property
from pathlib import Path, PurePosixPath

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from kernel_matrix.base.errors import UserError
from kernel_matrix.tools.wheel import elf
from kernel_matrix.tools.wheel.elf import Shared
from kernel_matrix.tools.wheel.gpu_code import code_in


@dataclass(frozen=True)
class Wheel:
    """One wheel that is unpacked: its shared objects by their path in it, and the files that are broken ones."""

    name: str
    tags: frozenset[Tag]
    metadata: Message
    objects: Mapping[str, Shared]
    broken: tuple[str, ...] = ()

    @cached_property
    def codes(self) -> Mapping[str, set[str]]:
        """The targets that each shared object has code for."""
        return {name: code_in(shared) for name, shared in self.objects.items()}

    @property
    def is_read(self) -> bool:
        """Return whether it is for Linux with glibc, or for any system: what others load is not read."""
        return any(tag.platform == "any" or "linux" in tag.platform.replace("musllinux", "") for tag in self.tags)

    @property
    def torch(self) -> SpecifierSet | None:
        """The versions of PyTorch that its metadata asks for; None if it names no PyTorch."""
        found = None
        for text in self.metadata.get_all("Requires-Dist", []):
            try:
                requirement = Requirement(text)
            except InvalidRequirement:
                continue
            if canonicalize_name(requirement.name) == "torch" and "extra" not in str(requirement.marker):
                found = (found or SpecifierSet()) & requirement.specifier
        return found

    @cached_property
    def by_soname(self) -> Mapping[str, str]:
        """The path of each own library, by its soname and by the name of its file."""
        names = {PurePosixPath(name).name: name for name in self.objects}
        return {**names, **{shared.soname: name for name, shared in self.objects.items() if shared.soname}}

    def closure(self, name: str) -> Iterator[Shared]:
        """Yield a shared object, and the own libraries that are loaded with it."""
        seen, waiting = set(), [name]
        while waiting:
            if (name := waiting.pop()) not in seen:
                seen.add(name)
                yield self.objects[name]
                waiting += [self.by_soname[one] for one in self.objects[name].needed if one in self.by_soname]

    def finds(self, name: str, library: str) -> bool:
        """Return whether the loader finds an own library next to a shared object, by the RUNPATH of that."""
        folder = PurePosixPath(name).parent
        wanted = PurePosixPath(self.by_soname[library])
        places = (place.replace("${ORIGIN}", "$ORIGIN") for place in self.objects[name].search)
        return any(_joined(folder, place) == wanted.parent for place in places if place.startswith("$ORIGIN"))


def _joined(folder: PurePosixPath, place: str) -> PurePosixPath:
    """Return the folder in the wheel that a place such as ``$ORIGIN/../libs`` means."""
    parts: list[str] = list(folder.parts)
    for part in PurePosixPath(place).parts[1:]:
        if part == ".." and parts:
            parts.pop()
        elif part != "..":
            parts.append(part)
    return PurePosixPath(*parts)


def opened(path: Path, folder: Path) -> Wheel:
    """Unpack the shared objects of a wheel into a folder, and return what it is.

    Raises:
        UserError: it is no wheel.
    """
    try:
        tags = parse_wheel_filename(path.name)[3]
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            [info] = [name for name in names if name.count("/") == 1 and name.endswith(".dist-info/METADATA")]
            metadata = HeaderParser().parsestr(archive.read(info).decode("utf-8", "replace"))
            wanted = [name for name in names if ".so" in PurePosixPath(name).name]
            archive.extractall(folder, wanted)
    except (OSError, ValueError, zipfile.BadZipFile, InvalidWheelFilename) as error:
        raise UserError(f"{path}: this cannot be read as a wheel: {error}.") from None
    objects, broken = {}, []
    for name in sorted(wanted):
        try:
            if shared := elf.read(folder / name):
                objects[name] = shared
        except elf.BrokenError:
            broken.append(name)
    return Wheel(path.name, tags, metadata, objects, tuple(broken))
