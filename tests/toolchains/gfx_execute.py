"""Encode single instructions and execute them on registers: what comparisons of the emulator share."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu_emulators.amd import decoding, gfx1250, library
from gpu_emulators.amd.translate import translate

FAMILIES = list(dict.fromkeys(decoding.FAMILIES.values()))
REGISTERS, LANES, RESULT = 64, 64, 40  # the first factor is in register 0, the second in 16, what is added in 40
SECOND = 16
USUAL = 0xF0  # of MODE


def encoded(target: str, encoding: str, name: str, **fields: int) -> bytes:
    decoding._decoder()
    module = importlib.import_module(f"tinygrad.runtime.autogen.amd.{decoding.family_of(target)}.ins")
    kind = getattr(module, encoding)
    positions = dict(kind._fields)
    names = {decoding._SUFFIX.sub("", one.name.lower()): one.value for one in positions["op"].allowed}
    if target == "gfx1250":
        names |= {one[0]: opcode for opcode, one in gfx1250.OPCODES.get(encoding, {}).items()}
    if target == "gfx90a":
        names |= {name: opcode for opcode, name in decoding._MATRIX_OPCODES_OF_GFX90A.items()}
    raw = 0
    for field, position in positions.items():
        fixed = position.default if type(position).__name__ == "FixedBitField" else 0
        mask = 255 if field == "op" and encoding == "VOP3P" and target == "gfx1250" else position.mask
        raw |= ((fields | {"op": names[name]}).get(field, fixed) & mask) << position.lo
    return raw.to_bytes(16, "little")


def executed(
    target: str, code: bytes, registers: Mapping[int, Any], mode: int = USUAL, scalars: Mapping[int, int] | None = None
) -> Any:
    """Return all vector registers after an instruction, as an array of registers and lanes."""
    family = decoding.family_of(target)
    lanes = 64 if family == "cdna" else 32
    vectors = np.zeros((REGISTERS, LANES), np.uint32)
    for number, values in registers.items():
        vectors[number, : values.size] = values
    records = translate([decoding._decoded(code, family, target, 0)], target).records
    given = (ctypes.c_uint32 * 128)(*((scalars or {}).get(number, 0) for number in range(128)))
    handlers = {record.handler: library.handler(record.handler) for record in records}
    assert None not in handlers.values(), handlers
    library.library().execute(
        b"".join(record.packed(handlers[record.handler]) for record in records), lanes, FAMILIES.index(family), mode,
        vectors.ctypes.data_as(ctypes.c_void_p), REGISTERS, given,
        ctypes.byref(ctypes.c_uint64((1 << lanes) - 1)), ctypes.byref(ctypes.c_uint32(0)),
    )  # fmt: skip
    return vectors[:, :lanes]


def first(wrong: Any, *shown: Any) -> str:
    """Return what is shown at the first place that is wrong; empty where none is."""
    places = np.flatnonzero(wrong)
    return f"{places.size}: " + ", ".join(str(one[places[0]]) for one in shown) if places.size else ""


def differ(got: Any, right: Any) -> Any:
    """Return where numbers have other bits, and are not both NaN."""
    kind = np.dtype(f"u{got.dtype.itemsize}")
    return (got.view(kind) != right.view(kind)) & ~((got != got) & (right != right))
