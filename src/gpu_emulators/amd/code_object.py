"""Read AMD code objects (HSACO): the kernels of one, with their descriptors, arguments and machine code."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gpu_emulators.amd.msgpack import unpacked
from gpu_emulators.common.errors import EmulatorError

_LOADED, _NOTES = 1, 4  # types of segments
_SYMBOLS = (2, 11)  # types of sections
_FUNCTION = 2  # the type of a symbol
_RELOCATIONS, _NOTE_SECTION, _NO_BITS = 4, 7, 8
_ALLOCATED = 2  # the flag of a section that is loaded
_MAY_WRITE, _WRITABLE = 2, 1  # the flag of a segment, and of a section
_ADDRESS, _OWN_ADDRESS = 3, 13  # kinds of relocation: of a symbol, and of a place of the code object
_RELOCATABLE = 1  # the type of a file that no linker has seen
_PAGE = 256
# By kind of relocation: the bytes, whether it is a distance from its place, and the bits that are left out.
_ADDRESSES = {
    1: (4, False, 0),
    2: (4, False, 32),
    3: (8, False, 0),
    4: (4, True, 0),
    5: (8, True, 0),
    6: (4, False, 0),
    10: (4, True, 0),
    11: (4, True, 32),
}
_METADATA = 32  # the type of AMD's note
_BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
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

    def mode(self, family: str) -> int:
        """Return the MODE register at the start; RDNA 4 has other bits where the others say how NaN is clamped."""
        first = self.resources[0]
        clamps = 0 if family == "rdna4" else (first >> 21 & 1) << 8 | (first >> 23 & 1) << 9
        return self.float_mode | clamps | (first >> 26 & 1) << 23


@dataclass(frozen=True)
class CodeObject:
    """The kernels of a code object, by name, its loaded bytes from virtual address 0 on, and what kernels may call."""

    kernels: Mapping[str, Kernel]
    image: bytes
    sections: Mapping[str, bytes]
    functions: Mapping[int, bytes] = field(default_factory=dict)  # their machine code, by its address
    variables: Sequence[tuple[int, int]] = ()  # where kernels may write: addresses and sizes
    pointers: Sequence[tuple[int, int]] = ()  # where there is an address, and the place that it means

    @cached_property
    def loaded(self) -> Any:
        """The memory of the loaded bytes, which the kernels share: one may read what another wrote to a variable."""
        memory = ctypes.create_string_buffer(self.image, len(self.image))
        for at, means in self.pointers:
            struct.pack_into("<Q", memory, at, ctypes.addressof(memory) + means)
        return memory


@dataclass(frozen=True)
class _Section:
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


def read(data: bytes) -> CodeObject:
    """Read a code object, by itself or in a bundle of hipcc.

    Raises:
        EmulatorError: it is none, or a kernel has no descriptor that fits.
    """
    data = _unbundled(data)
    if data[:4] != b"\x7fELF":
        raise EmulatorError("this is no code object: it does not begin as an ELF file does")
    sections = _sections(data)
    loaded, notes, variables = _segments(data) if _is_linked(data) else _linked(data, sections)
    image = bytes(loaded)
    listed = [one for table in sections if table.kind in _SYMBOLS for one in _symbols(data, sections, table)]
    symbols = {name: (address, size) for name, address, size, _ in listed if address is not None}
    described = {entry[".name"]: entry for entry in _metadata(notes).get("amdhsa.kernels", [])}
    kernels = {}
    for name, (address, _) in sorted(symbols.items()):
        if name.endswith(_DESCRIPTOR):
            stem = name.removesuffix(_DESCRIPTOR)
            kernels[stem] = _kernel(stem, image, address, symbols[stem], described.get(stem, {}))
    starts = {kernel.address for kernel in kernels.values()}
    functions = {
        address: image[address : address + size]
        for _, address, size, kind in listed
        if kind == _FUNCTION and address is not None and address not in starts
    }
    pointers = [
        one for section in sections if section.kind == _RELOCATIONS for one in _pointers(data, sections, section)
    ]
    return CodeObject(kernels, image, _by_name(data, sections), functions, variables, pointers)


def _unbundled(data: bytes) -> bytes:
    """Return the code for a GPU of a bundle, which has an empty part for the host too; other bytes as they are."""
    if not data.startswith(_BUNDLE):
        return data
    at = len(_BUNDLE) + 8
    for _ in range(int.from_bytes(data[len(_BUNDLE) : at], "little")):
        start, size, name = struct.unpack_from("<QQQ", data, at)
        if b"amdgcn" in data[at + 24 : at + 24 + name]:
            return data[start : start + size]
        at += 24 + name
    raise EmulatorError("the bundle has no code for a GPU")


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


def _pointers(data: bytes, sections: Sequence[_Section], section: _Section) -> Iterator[tuple[int, int]]:
    """Yield where a section of relocations puts an address, and the place of the code object that it means."""
    symbols = _symbols(data, sections, sections[section.link])
    start = 0 if _is_linked(data) else sections[section.info].address
    if _is_linked(data) or sections[section.info].flags & _ALLOCATED:
        for at in range(section.offset, section.offset + section.size, section.entry):
            offset, info, addend = struct.unpack_from("<QQq", data, at)
            kind, (_, address, *_) = info & 0xFFFFFFFF, symbols[info >> 32]
            if kind in (_ADDRESS, _OWN_ADDRESS):
                yield start + offset, addend + (address or 0 if kind == _ADDRESS else 0)


def _segments(data: bytes) -> tuple[bytearray, bytes, list[tuple[int, int]]]:
    """Return the loaded bytes from virtual address 0 on, the bytes of the notes, and where kernels may write."""
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    image, notes, variables = bytearray(), b"", []
    for number in range(count):
        kind, flags, offset, address, _, in_file, in_memory, _ = struct.unpack_from(
            "<IIQQQQQQ", data, start + number * size
        )
        if kind == _LOADED:
            image.extend(bytes(max(0, address + in_memory - len(image))))
            image[address : address + in_file] = data[offset : offset + in_file]
            variables += [(address, in_memory)] if flags & _MAY_WRITE else []
        elif kind == _NOTES:
            notes = data[offset : offset + in_file]
    return image, notes, variables


def _is_linked(data: bytes) -> bool:
    return int.from_bytes(data[16:18], "little") != _RELOCATABLE


def _linked(data: bytes, sections: list[_Section]) -> tuple[bytearray, bytes, list[tuple[int, int]]]:
    """Give the sections of one object their addresses, as a linker does. Return what :func:`_segments` does."""
    image, notes, variables = bytearray(_PAGE), b"", []  # address 0 is nobody's
    for number, section in enumerate(sections):
        content = data[section.offset : section.offset + section.size]
        if section.kind == _NOTE_SECTION:
            notes = content
        if section.flags & _ALLOCATED:
            image.extend(bytes(-len(image) % _PAGE))
            sections[number] = replace(section, address=len(image))
            variables += [(len(image), section.size)] if section.flags & _WRITABLE else []
            image.extend(bytes(section.size) if section.kind == _NO_BITS else content)
    _relocate(image, data, sections)
    return image, notes, variables


def _relocate(image: bytearray, data: bytes, sections: Sequence[_Section]) -> None:
    """Fill the addresses in.

    Raises:
        EmulatorError: an address leads out of the object, or is of an unknown kind.
    """
    for section in sections:
        if section.kind != _RELOCATIONS or not sections[section.info].flags & _ALLOCATED:
            continue
        symbols = _symbols(data, sections, sections[section.link])
        for at in range(section.offset, section.offset + section.size, section.entry):
            offset, info, addend = struct.unpack_from("<QQq", data, at)
            name, address, _, _ = symbols[info >> 32]
            place, kind = sections[section.info].address + offset, info & 0xFFFFFFFF
            if address is None or kind not in _ADDRESSES:
                raise EmulatorError(f"the object needs {name or 'an address'}, which is not in it (relocation {kind})")
            size, is_relative, shift = _ADDRESSES[kind]
            value = (address + addend - (place if is_relative else 0)) >> shift & (1 << 8 * size) - 1
            image[place : place + size] = value.to_bytes(size, "little")


def _sections(data: bytes) -> list[_Section]:
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    return [_Section(*struct.unpack_from("<IIQQQQIIQQ", data, start + number * size)) for number in range(count)]


def _by_name(data: bytes, sections: Sequence[_Section]) -> dict[str, bytes]:
    (index,) = struct.unpack_from("<H", data, 62)
    names = sections[index].offset
    return {
        _text(data, names + section.name): data[section.offset : section.offset + section.size] for section in sections
    }


def _symbols(data: bytes, sections: Sequence[_Section], table: _Section) -> list[tuple[str, int | None, int, int]]:
    """Return the symbols of a table: the name, the address (None: it is not in this file), the size and the type."""
    names, symbols = sections[table.link].offset, []
    is_linked = _is_linked(data)
    for at in range(table.offset, table.offset + table.size, table.entry):
        name, info, _, place, value, size = struct.unpack_from("<IBBHQQ", data, at)
        start = 0 if is_linked else sections[place].address if 0 < place < len(sections) else None
        symbols.append((_text(data, names + name), None if start is None else start + value, size, info & 15))
    return symbols


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
