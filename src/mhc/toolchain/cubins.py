"""Read what a cubin, NVIDIA's machine code, says of itself. It is an ELF file of 64 bits."""

from __future__ import annotations

import struct
from collections.abc import Iterator

# Attributes in the section .nv.info of a cubin: four bytes of head, then the number of a symbol and a value.
_REGISTERS, _FRAME = 0x2F, 0x11
_VALUE = 4  # the format of an attribute whose size follows its number


def resources(code: bytes) -> dict[str, int]:
    """Return the registers of a thread, its stack and the block's static shared memory, out of a cubin.

    Without a stack there are no spills, as they are on it. How many there are, a cubin does not tell.
    """
    numbers = {"registers": 0, "stack_bytes": 0, "shared_bytes": 0}
    for name, data, size in _sections(code):
        if name == ".nv.info":
            for attribute, value in _attributes(data):
                key = {_REGISTERS: "registers", _FRAME: "stack_bytes"}.get(attribute)
                if key is not None:
                    numbers[key] = max(numbers[key], value)
        elif name.startswith(".nv.shared.") and not name.startswith(".nv.shared.reserved"):
            numbers["shared_bytes"] = max(numbers["shared_bytes"], size)
    if not numbers["registers"]:
        raise RuntimeError("the cubin does not tell its registers")
    return numbers if numbers["stack_bytes"] else {**numbers, "spill_bytes": 0}


def entry_of(code: bytes) -> str:
    """Return the name of the only kernel in a cubin."""
    [name] = [name.removeprefix(".text.") for name, _, _ in _sections(code) if name.startswith(".text.")]
    return name


def _sections(code: bytes) -> Iterator[tuple[str, bytes, int]]:
    """Yield the name, the content and the size of each section of an ELF file of 64 bits."""
    (table,) = struct.unpack_from("<Q", code, 40)
    size, count, names = struct.unpack_from("<HHH", code, 58)
    heads = [struct.unpack_from("<IIQQQQ", code, table + i * size) for i in range(count)]
    strings = heads[names][4]
    for name, kind, _, _, offset, length in heads:
        begin = strings + name
        without_content = kind == 8  # SHT_NOBITS
        yield (
            code[begin : code.index(b"\0", begin)].decode(),
            b"" if without_content else code[offset : offset + length],
            length,
        )


def _attributes(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the number and the value of each attribute that has a value for a symbol."""
    at = 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _VALUE:
            if size == 8:
                yield attribute, struct.unpack_from("<II", data, at)[1]
            at += size
