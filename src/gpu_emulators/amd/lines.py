"""The lines of the source that instructions come from: the line table of DWARF 4 and 5 in a code object."""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_STRING, _INLINE = {0x0E: ".debug_str", 0x1F: ".debug_line_str"}, 0x08  # forms of names
_SIZES = {0x0B: 1, 0x05: 2, 0x1E: 16}  # forms of a fixed size
_UDATA, _PATH = 0x0F, 1
_FIVE = 5  # the version of DWARF whose files begin at 0


class _Cursor:
    """A place in bytes, which reading moves on."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, size: int) -> int:
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "little")

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.number(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self) -> int:
        start = self.at
        value = self.unsigned()
        width = 7 * (self.at - start)
        return value - (1 << width) if value >> (width - 1) & 1 else value

    def text(self) -> str:
        end = self.data.index(0, self.at)
        text, self.at = self.data[self.at : end].decode(errors="replace"), end + 1
        return text


@dataclass
class _Header:
    least: int  # bytes of the shortest instruction
    base: int
    range: int
    first_special: int
    operands: tuple[int, ...]
    files: list[str] = field(default_factory=list)
    first_file: int = 1


class Lines:
    """The line table of a code object; it is empty where the code object has none."""

    def __init__(self, sections: Mapping[str, bytes]) -> None:
        """Read the table of the sections."""
        self._sections = sections
        try:
            rows = sorted(self._rows(sections.get(".debug_line", b"")))
        except (IndexError, struct.error, ValueError):  # another version, or not whole: then there are no lines
            rows = []
        self._addresses = [address for address, _ in rows]
        self._names = [name for _, name in rows]

    def at(self, address: int) -> str:
        """Return the file and the line of an address; empty if it is not known."""
        place = bisect.bisect_right(self._addresses, address) - 1
        return self._names[place] if place >= 0 else ""

    def _rows(self, data: bytes) -> Iterator[tuple[int, str]]:
        cursor = _Cursor(data)
        while cursor.at < len(data):
            end = cursor.number(4) + cursor.at
            header = self._header(cursor)
            yield from _run(cursor, header, end)
            cursor.at = end

    def _header(self, cursor: _Cursor) -> _Header:
        version = cursor.number(2)
        if version >= _FIVE:
            cursor.number(2)  # sizes of an address and of a segment's selector
        program = cursor.number(4) + cursor.at
        least = cursor.number(1)
        cursor.number(2)  # operations of an instruction, and whether a row is a statement
        base = (cursor.number(1) ^ 0x80) - 0x80
        width, first = cursor.number(1), cursor.number(1)
        header = _Header(least, base, width, first, tuple(cursor.number(1) for _ in range(first - 1)))
        if version >= _FIVE:
            self._entries(cursor)  # folders
            header.files, header.first_file = self._entries(cursor), 0
        else:
            header.files = _files(cursor)
        cursor.at = program
        return header

    def _entries(self, cursor: _Cursor) -> list[str]:
        formats = [(cursor.unsigned(), cursor.unsigned()) for _ in range(cursor.number(1))]
        names = []
        for _ in range(cursor.unsigned()):
            values = {content: self._form(cursor, form) for content, form in formats}
            names.append(str(values[_PATH]))
        return names

    def _form(self, cursor: _Cursor, form: int) -> str | int:
        if form == _INLINE:
            return cursor.text()
        if form in _STRING:
            names = _Cursor(self._sections[_STRING[form]])
            names.at = cursor.number(4)
            return names.text()
        return cursor.unsigned() if form == _UDATA else cursor.number(_SIZES.get(form, 4))


def _files(cursor: _Cursor) -> list[str]:
    """Return the names of the files of DWARF 4, behind the folders."""
    while cursor.text():
        pass
    names = []
    while name := cursor.text():
        names.append(name)
        for _ in range(3):  # folder, time, size
            cursor.unsigned()
    return names


def _run(cursor: _Cursor, header: _Header, end: int) -> Iterator[tuple[int, str]]:
    """Run the program of a table, and yield the address and the name of each row."""
    address, file, line = 0, 1, 1

    def row() -> tuple[int, str]:
        place = file - header.first_file
        return address, f"{header.files[place] if place < len(header.files) else '?'}:{line}"

    while cursor.at < end:
        code = cursor.number(1)
        if code >= header.first_special:
            steps = code - header.first_special
            address += steps // header.range * header.least
            line += header.base + steps % header.range
            yield row()
        elif code == 0:
            length = cursor.unsigned()
            behind = cursor.at + length
            kind = cursor.number(1)
            if kind == 1:  # the end of a sequence
                address, file, line = 0, 1, 1
            elif kind == 2:
                address = cursor.number(length - 1)
            cursor.at = behind
        elif code == 1:
            yield row()
        elif code == 2:
            address += cursor.unsigned() * header.least
        elif code == 3:
            line += cursor.signed()
        elif code == 4:
            file = cursor.unsigned()
        elif code == 8:
            address += (255 - header.first_special) // header.range * header.least
        elif code == 9:
            address += cursor.number(2)
        else:
            for _ in range(header.operands[code - 1]):
                cursor.unsigned()
