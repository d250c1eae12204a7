"""Read what a shared object asks of the loader and gives to others: libraries, symbols, versions, sections."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

_HEAD = b"\x7fELF\x02\x01"  # 64 bits, little endian
_DYNAMIC, _NOBITS, _DYNSYM = 6, 8, 11
_VERSIONS_NEEDED, _VERSION_OF_SYMBOL = 0x6FFFFFFE, 0x6FFFFFFF
_NEEDED, _SONAME, _RPATH, _RUNPATH = 1, 14, 15, 29
_LOCAL, _WEAK = 0, 2
_INDEX = 0x7FFF  # the other bit hides a version


class Version(NamedTuple):
    """The version that a symbol is asked for in, such as ``GLIBC_2.17``, and the library that is to have it."""

    name: str
    library: str


class BrokenError(ValueError):
    """A file begins as an ELF file, and its parts lie outside of it or are none."""


@dataclass(frozen=True)
class Section:
    """One section of the file."""

    name: str
    kind: int
    offset: int
    size: int
    link: int
    count: int

    @property
    def in_file(self) -> range:
        """The bytes of the file; none of a section that the loader fills."""
        return range(self.offset, self.offset + (0 if self.kind == _NOBITS else self.size))


@dataclass
class Shared:
    """One shared object. ``undefined`` are the symbols that it asks for, without the weak ones, which may be absent."""

    path: Path
    soname: str = ""
    needed: list[str] = field(default_factory=list)
    search: list[str] = field(default_factory=list)  # the folders of its RUNPATH
    undefined: dict[str, Version | None] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    sections: list[Section] = field(default_factory=list)

    def content(self, names: tuple[str, ...]) -> Iterator[bytes]:
        """Yield the content of the sections whose names begin so.

        Raises:
            BrokenError: a section lies outside of the file.
        """
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            for section in self.sections:
                if section.name.startswith(names) and section.in_file:
                    if section.in_file.stop > size:
                        raise BrokenError(f"{section.name} ends behind the end of the file")
                    file.seek(section.offset)
                    yield file.read(len(section.in_file))


def read(path: Path) -> Shared | None:
    """Return what an ELF file of 64 bits has; None if it is something else.

    Raises:
        BrokenError: it is one, and cannot be read to its end.
    """
    with path.open("rb") as file:
        if file.read(len(_HEAD)) != _HEAD:
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _Reading(data).shared(path)
            except (struct.error, IndexError, OverflowError, ValueError) as error:
                raise BrokenError(str(error)) from None


class _Reading:
    """The reading of one file."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        (start,) = struct.unpack_from("<Q", data, 40)
        width, count, names = struct.unpack_from("<HHH", data, 58)
        heads = [struct.unpack_from("<IIQQQQIIQQ", data, start + width * number) for number in range(count)]
        at = heads[names][4] if heads else 0
        self.sections = [
            Section(self.text(at + head[0]), head[1], head[4], head[5], head[6], head[7]) for head in heads
        ]

    def text(self, at: int) -> str:
        return self.data[at : self.data.find(b"\0", at)].decode("utf-8", "replace")

    def shared(self, path: Path) -> Shared:
        shared = Shared(path, sections=self.sections)
        if dynamic := self._section(_DYNAMIC):
            strings = self.sections[dynamic.link].offset
            for tag, value in struct.iter_unpack("<QQ", self._bytes(dynamic)):
                if tag == _NEEDED:
                    shared.needed.append(self.text(strings + value))
                elif tag == _SONAME:
                    shared.soname = self.text(strings + value)
                elif tag in (_RPATH, _RUNPATH):
                    shared.search += self.text(strings + value).split(":")
        if symbols := self._section(_DYNSYM):
            self._symbols(symbols, shared)
        return shared

    def _symbols(self, symbols: Section, shared: Shared) -> None:
        strings, versions = self.sections[symbols.link].offset, self._versions()
        numbers = self._bytes(self._section(_VERSION_OF_SYMBOL))
        for index, (name, info, _, section, _, _) in enumerate(struct.iter_unpack("<IBBHQQ", self._bytes(symbols))):
            if not name or info >> 4 == _LOCAL:
                continue
            text = self.text(strings + name)
            if section:
                shared.defined.add(text)
            elif info >> 4 != _WEAK:
                number = struct.unpack_from("<H", numbers, 2 * index)[0] & _INDEX if numbers else 0
                shared.undefined[text] = versions.get(number)

    def _versions(self) -> dict[int, Version]:
        """Return the versions that are asked for, by their number."""
        found: dict[int, Version] = {}
        section = self._section(_VERSIONS_NEEDED)
        if section is None:
            return found
        at, strings = section.offset, self.sections[section.link].offset
        for _ in range(section.count):
            _, entries, library, first, following = struct.unpack_from("<HHIII", self.data, at)
            entry = at + first
            for _ in range(entries):
                _, _, number, name, next_one = struct.unpack_from("<IHHII", self.data, entry)
                found[number] = Version(self.text(strings + name), self.text(strings + library))
                entry += next_one
            at += following
        return found

    def _section(self, kind: int) -> Section | None:
        return next((section for section in self.sections if section.kind == kind), None)

    def _bytes(self, section: Section | None) -> bytes:
        return self.data[section.offset : section.offset + section.size] if section else b""
