"""Read how large the code in an object file is: cubins and AMD's code objects are ELF files of 64 bits."""

from __future__ import annotations

import struct


def code_bytes(data: bytes, function: str = "") -> int:
    """Return the bytes in the sections that hold instructions, of one function or of all; 0 if this is no such file."""
    if data[:5] != b"\x7fELF\x02":
        return 0
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    entry, count, names = struct.unpack_from("<HHH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", data, offset + number * entry) for number in range(count)]
    start = sections[names][4]
    wanted = f".text.{function}\0".encode() if function else b".text"
    return sum(size for name, _, _, _, _, size in sections if data.startswith(wanted, start + name))
