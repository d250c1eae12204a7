"""Read AMD code objects (HSACO): the kernels of one, with their descriptors, arguments and machine code."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gfx_emulator.errors import EmulatorError
from gfx_emulator.msgpack import unpacked

_LOADED, _NOTES = 1, 4  # types of segments
_SYMBOLS = (2, 11)  # types of sections
_METADATA = 32  # the type of AMD's note
_DESCRIPTOR = ".kd"  # what the name of a kernel's descriptor ends with


@dataclass(frozen=True)
class Argument:
    """One argument of a kernel, as the code object's metadata describes it: ``kind`` is AMD's ``.value_kind``."""

    name: str
    kind: str
    offset: int
    size: int

    @property
    def is_hidden(self) -> bool:
        """Return whether the compiler added it."""
        return self.kind.startswith("hidden_")


@dataclass(frozen=True)
class Kernel:
    """One kernel: its machine code, where it is in the image, and what its descriptor asks for.

    ``resources`` are the three words COMPUTE_PGM_RSRC1 to 3, ``properties`` KERNEL_CODE_PROPERTIES, and ``preload`` the
    number and the place of the arguments that are in scalar registers when it starts.
    """

    name: str
    text: bytes
    address: int
    lds: int
    scratch: int
    argument_bytes: int
    resources: tuple[int, int, int]
    properties: int
    preload: int
    arguments: tuple[Argument, ...]

    @property
    def wave(self) -> int:
        """Return the number of lanes of a wave."""
        return 32 if self.properties >> 10 & 1 else 64

    @property
    def float_mode(self) -> int:
        """Return how the kernel rounds, and what it does with subnormal numbers: the byte of the MODE register."""
        return self.resources[0] >> 12 & 0xFF


@dataclass(frozen=True)
class CodeObject:
    """The kernels of a code object, by name, and its loaded bytes from virtual address 0 on."""

    kernels: Mapping[str, Kernel]
    image: bytes
    sections: Mapping[str, bytes]


@dataclass(frozen=True)
class _Section:
    name: int
    kind: int
    offset: int
    size: int
    link: int
    entry: int


def read(data: bytes) -> CodeObject:
    """Read a code object.

    Raises:
        EmulatorError: it is none, or a kernel has no descriptor that fits.
    """
    if data[:4] != b"\x7fELF":
        raise EmulatorError("this is no code object: it does not begin as an ELF file does")
    image, notes = _segments(data)
    sections = _sections(data)
    symbols = dict(_symbols(data, sections))
    described = {entry[".name"]: entry for entry in _metadata(notes).get("amdhsa.kernels", [])}
    kernels = {}
    for name, (address, _) in sorted(symbols.items()):
        if name.endswith(_DESCRIPTOR):
            stem = name.removesuffix(_DESCRIPTOR)
            kernels[stem] = _kernel(stem, image, address, symbols[stem], described.get(stem, {}))
    return CodeObject(kernels, image, _by_name(data, sections))


def _kernel(name: str, image: bytes, descriptor: int, place: tuple[int, int], metadata: Mapping[str, Any]) -> Kernel:
    lds, scratch, argument_bytes, _, entry = struct.unpack_from("<IIIIq", image, descriptor)
    third, first, second, properties, preload = struct.unpack_from("<IIIHH", image, descriptor + 44)
    start, size = place
    if start != descriptor + entry:
        raise EmulatorError(f"the descriptor of {name} does not name its code")
    arguments = tuple(
        Argument(entry.get(".name", ""), entry[".value_kind"], entry[".offset"], entry[".size"])
        for entry in metadata.get(".args", [])
    )
    text = image[start : start + size]
    resources = (first, second, third)
    return Kernel(name, text, start, lds, scratch, argument_bytes, resources, properties, preload, arguments)


def _segments(data: bytes) -> tuple[bytes, bytes]:
    """Return the loaded bytes from virtual address 0 on, and those of the notes."""
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    image, notes = bytearray(), b""
    for number in range(count):
        kind, _, offset, address, _, in_file, in_memory, _ = struct.unpack_from(
            "<IIQQQQQQ", data, start + number * size
        )
        if kind == _LOADED:
            image.extend(bytes(max(0, address + in_memory - len(image))))
            image[address : address + in_file] = data[offset : offset + in_file]
        elif kind == _NOTES:
            notes = data[offset : offset + in_file]
    return bytes(image), notes


def _sections(data: bytes) -> Sequence[_Section]:
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = []
    for number in range(count):
        fields = struct.unpack_from("<IIQQQQIIQQ", data, start + number * size)
        name, kind, _, _, offset, length, link, _, _, entry = fields
        sections.append(_Section(name, kind, offset, length, link, entry))
    return sections


def _by_name(data: bytes, sections: Sequence[_Section]) -> dict[str, bytes]:
    (index,) = struct.unpack_from("<H", data, 62)
    names = sections[index].offset
    return {
        _text(data, names + section.name): data[section.offset : section.offset + section.size] for section in sections
    }


def _symbols(data: bytes, sections: Sequence[_Section]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the symbols with their addresses and sizes."""
    for section in sections:
        if section.kind in _SYMBOLS:
            names = sections[section.link].offset
            for at in range(section.offset, section.offset + section.size, section.entry):
                name, _, _, _, value, size = struct.unpack_from("<IBBHQQ", data, at)
                yield _text(data, names + name), (value, size)


def _metadata(notes: bytes) -> dict[str, Any]:
    """Return AMD's description of the kernels, which is a note in MessagePack."""
    at = 0
    while at + 12 <= len(notes):
        name, size, kind = struct.unpack_from("<III", notes, at)
        start = at + 12 + name + -name % 4
        if kind == _METADATA:
            content: dict[str, Any] = unpacked(notes[start : start + size])
            return content
        at = start + size + -size % 4
    return {}


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(0, start)].decode()
