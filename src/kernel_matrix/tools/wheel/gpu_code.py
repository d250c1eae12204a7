"""Find the code for GPUs in a shared object: CUDA's fat binaries, and the bundles of code objects of clang for AMD."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable, Iterator

import pyarrow as pa

from kernel_matrix.tools.wheel.elf import Shared

UNREADABLE = "unreadable"
_FAT_BINARY = struct.pack("<I", 0xBA55ED50)
_PTX, _CUBIN = 1, 2
_OWN_INSTRUCTIONS = 1 << 20  # the flag of an architecture with the letter a
_BUNDLE, _COMPRESSED = b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"
_ZSTANDARD = 1
_MOST_ENTRIES = 256
_TARGET_OF_AMD = re.compile(r"gfx\w+(?::\w+[+-])*$")
_NAME = re.compile(r"(sm|compute)_(\d+)([af]?)")


def code_in(shared: Shared) -> set[str]:
    """Return the targets that a file has code for: ``sm_90a``, ``compute_90`` for PTX, ``gfx942``.

    Code in a form that this does not know is the target ``unreadable``: it is said, and not guessed.
    """
    found: set[str] = set()
    for names, targets in (((".nv_fatbin", "__nv_relfatbin"), _of_cuda), ((".hip_fatbin",), _of_hip)):
        try:
            for content in shared.content(names):
                found.update(targets(content))
        except (struct.error, OverflowError, ValueError, OSError, MemoryError, zlib.error, pa.ArrowException):
            found.add(UNREADABLE)
    return found


def runs_on(codes: Iterable[str], target: str) -> bool:
    """Return whether some of the code runs on a target.

    A cubin runs on later devices of its own generation, one with the letter a on its own architecture alone, one with
    the letter f in its family; PTX is compiled for every later device.
    """
    wanted = _NAME.fullmatch(target)
    if wanted is None:  # AMD's code is for one target, perhaps with features such as gfx90a:xnack-
        return any(code.partition(":")[0] == target for code in codes)
    number = int(wanted[2])
    for match in filter(None, map(_NAME.fullmatch, codes)):
        own, letter = int(match[2]), match[3]
        same_generation = own // 10 == number // 10
        if own == number or (own < number and letter != "a" and (match[1] == "compute" or same_generation)):
            return True
    return False


def _of_cuda(data: bytes) -> Iterator[str]:
    """Yield the targets of fat binaries: a head, then entries with a kind, their sizes and the architecture."""
    at = 0
    while (at := data.find(_FAT_BINARY, at)) >= 0 and at + 16 <= len(data):
        _, _, head, size = struct.unpack_from("<IHHQ", data, at)
        entry, end = at + head, min(at + head + size, len(data))
        while entry + 64 <= end:
            kind, _, own, length = struct.unpack_from("<HHIQ", data, entry)
            (architecture,) = struct.unpack_from("<I", data, entry + 28)
            (flags,) = struct.unpack_from("<Q", data, entry + 40)
            if kind not in (_PTX, _CUBIN) or not own:
                break
            letter = "a" if flags & _OWN_INSTRUCTIONS else ""
            yield f"{'compute' if kind == _PTX else 'sm'}_{architecture}{letter}"
            entry += own + length
        at = max(end, at + 16)


def _of_hip(data: bytes) -> Iterator[str]:
    at = 0
    while starts := [start for mark in (_BUNDLE, _COMPRESSED) if (start := data.find(mark, at)) >= 0]:
        at = min(starts)
        if data.startswith(_BUNDLE, at):
            yield from _of_bundle(data[at:])
            at += len(_BUNDLE)
        else:
            version, method = struct.unpack_from("<HH", data, at + 4)
            form, head = ("<QQ", 32) if version >= 3 else ("<II", 24)
            total, size = struct.unpack_from(form, data, at + 8)
            packed = data[at + head : at + total]
            yield from _of_bundle(
                pa.Codec("zstd").decompress(packed, size).to_pybytes()
                if method == _ZSTANDARD
                else zlib.decompress(packed)
            )
            at += max(total, len(_COMPRESSED))


def _of_bundle(data: bytes) -> Iterator[str]:
    (count,) = struct.unpack_from("<Q", data, len(_BUNDLE))
    at = len(_BUNDLE) + 8
    for _ in range(min(count, _MOST_ENTRIES)):
        _, size, length = struct.unpack_from("<QQQ", data, at)
        triple = data[at + 24 : at + 24 + length].decode("ascii", "replace")
        if "amdgcn" in triple and size and (target := _TARGET_OF_AMD.search(triple)):
            yield target[0]
        at += 24 + length
