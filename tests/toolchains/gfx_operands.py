"""Execute each opcode with each kind of operand in each place, and with registers that hold the same: prints JSON.

The bits that a constant stands for are taken from the types that AMD's pseudocode of the opcode names for the place.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import random
import re
import struct
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

from gfx_pseudocode import ENCODINGS, FAMILIES, REGISTERS, State, machine_code

from gpu_emulators.amd import decoding, library
from gpu_emulators.amd.names import CALLS, NOTHING, common
from gpu_emulators.amd.translate import translate
from gpu_emulators.common.errors import UnknownInstructionError

SCALARS, VECTOR, LITERAL = (12, 106), 14, 255  # registers that nothing else uses, and VCC
INTEGERS = {128: 0, 129: 1, 192: 64, 193: -1, 208: -16}
FLOATS = {240: 0.5, 241: -0.5, 242: 1.0, 243: -1.0, 244: 2.0, 245: -2.0, 246: 4.0, 247: -4.0, 248: 0.15915494309189532}
LITERALS = (0x80000000, 0x3FF12345, 0xBFF54321, 0x1234, 0xFFFF8000)
FEW = (193, 242)  # -1 and 1.0
FIELDS = {0: ("src0", "ssrc0"), 1: ("src1", "ssrc1"), 2: ("src2",)}
TYPED = r"\bS{}(\[[^\]]*\])?\.([uifb]+)(\d+)"
ONLY_REGISTERS = re.compile(r"v_(readlane|readfirstlane|writelane|permlane\w*|accvgpr_\w+|swap\w*|movrel\w+)(_b32)?$")
MASKS = re.compile(r"cndmask|_co_ci_|addc_co|subb_co|subbrev_co")


def type_of(family: str, name: str, place: int) -> str:
    """Return the type of a source by the pseudocode: ``f64``, ``pk f32`` for two registers; empty where it has none."""
    text = pseudocode(family).get(name, "")
    found = re.findall(TYPED.format(place), text) or re.findall(r"\bS(\[[^\]]*\])?\.([uifb]+)(\d+)", text)
    kinds = sorted({(int(width), kind) for _, kind, width in found}, reverse=True)
    if not kinds:
        return ""
    width, kind = kinds[0]
    is_pair = width == 32 and any(re.search(r"63|32 *:|: *32", part) for part, *_ in found)
    if width == 16 and "bf16" in name:
        return "bf16"  # the text says b16
    return f"{'pk ' if is_pair else ''}{kind}{width}"


@cache
def pseudocode(family: str) -> dict[str, str]:
    return decoding.pseudocode(family)


def bits_of(operand: int, kind: str, literal: int) -> int:
    """Return the 64 bits of two registers that hold what an operand stands for."""
    if operand in INTEGERS:
        value = INTEGERS[operand] & (1 << 32 if kind.startswith("pk") else 1 << 64) - 1
    elif operand == LITERAL:
        value = literal << 32 if kind == "f64" else literal
        value |= 0xFFFFFFFF << 32 if kind == "i64" and literal >> 31 else 0
    elif kind.endswith("64"):
        [value] = struct.unpack("<Q", struct.pack("<d", FLOATS[operand]))
    elif kind == "bf16":
        value = struct.unpack("<I", struct.pack("<f", FLOATS[operand]))[0] >> 16
    elif kind == "f16":
        [value] = struct.unpack("<H", struct.pack("<e", FLOATS[operand]))
    else:
        [value] = struct.unpack("<I", struct.pack("<f", FLOATS[operand]))
    return value | value << 32 if kind.startswith("pk") else value


def forms(family: str) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield the encoding and the name of each opcode that the emulator has."""
    decoding._decoder()
    module = importlib.import_module(f"tinygrad.runtime.autogen.amd.{family}.ins")
    for encoding in ENCODINGS:
        kind = getattr(module, encoding, None)
        for opcode in sorted(dict(kind._fields)["op"].allowed or (), key=lambda one: one.name) if kind else ():
            name = decoding._SUFFIX.sub("", opcode.name.lower())
            if name in CALLS or name in NOTHING or ONLY_REGISTERS.match(name):
                continue
            if common(name) in library.handler_names():
                yield encoding, name, kind, opcode


def places_of(family: str, name: str, kind: Any) -> Iterator[tuple[int, str]]:
    """Yield the places in which an opcode takes constants, each with the field of its encoding."""
    fields = dict(kind._fields)
    for place, names in FIELDS.items():
        for field in names:
            if (
                field in fields
                and fields[field].mask >= 255
                and type_of(family, name, place)
                and not (place == 2 and MASKS.search(name))
            ):
                yield place, field


def operands_of(encoding: str, family: str, *, few: bool) -> Iterator[tuple[int, int]]:
    """Yield constants and scalar registers, each with the literal behind the instruction."""
    yield from ((operand, 0) for operand in (FEW if few else (*SCALARS, *INTEGERS, *FLOATS)))
    if not (family == "cdna" and encoding.startswith("VOP3")):
        yield from ((LITERAL, literal) for literal in LITERALS[: 2 if few else None])


def encoded(kind: Any, encoding: str, name: str, opcode: Any, field: str, operand: int, literal: int) -> bytes:
    """Return the machine code of an opcode with an operand in one place, and the literal behind it."""
    code, _ = machine_code(kind, encoding, name, opcode)
    position = dict(kind._fields)[field]
    raw = int.from_bytes(code, "little") & ~(position.mask << position.lo) | operand << position.lo
    size = kind._base_size
    return (raw & (1 << 8 * size) - 1).to_bytes(size, "little") + literal.to_bytes(4, "little") + bytes(12)


def executed(code: bytes, family: str, name: str, held: int, field: str) -> tuple[list[int], ...]:
    """Return all registers after an instruction; the registers that stand for the operand hold 64 bits."""
    target, lanes = FAMILIES[family]
    state = State(lanes, name, 1)
    for lane in range(lanes):
        for half in range(2):
            state.vectors[(VECTOR + half) * 64 + lane] = held >> 32 * half & 0xFFFFFFFF
    for first in SCALARS:
        state.scalars[first], state.scalars[first + 1] = held & 0xFFFFFFFF, held >> 32
    [record] = translate([decoding._decoded(code, family, target, 0)], target).records
    library.library().execute(
        record.packed(library.handler(record.handler)), lanes, list(FAMILIES).index(family), 0xF0, state.vectors,
        REGISTERS, state.scalars, ctypes.byref(state.exec), ctypes.byref(state.scc),
    )  # fmt: skip
    return list(state.vectors[: 14 * 64]), list(state.scalars), [state.exec.value, state.scc.value]


def difference(
    family: str, encoding: str, name: str, kind: Any, opcode: Any, place: int, field: str, *, few: bool
) -> str:
    """Return the operand that is taken for something else than the pseudocode's type says; empty where none is."""
    of_scalars = encoding.startswith("SOP") or name.startswith("v_s_")
    number = SCALARS[0] if of_scalars else 256 + VECTOR
    named = type_of(family, name, place)
    register = encoded(kind, encoding, name, opcode, field, number, 0)
    for operand, literal in operands_of(encoding, family, few=few):
        if of_scalars and operand == SCALARS[0]:
            continue
        held = random.Random(name).getrandbits(64) if operand in SCALARS else bits_of(operand, named, literal)
        wanted = executed(register, family, name, held, field)
        got = executed(encoded(kind, encoding, name, opcode, field, operand, literal), family, name, held, field)
        if wanted != got:
            shown = {**FLOATS, **INTEGERS, LITERAL: f"literal {literal:#x}"}
            return f"{shown.get(operand, f's{operand}')} as {named}"
    return ""


def main() -> None:
    """Compare opcodes of a family, all of them or by day those whose sources have not 32 bits."""
    family, few = sys.argv[1], sys.argv[2:] == ["by-day"]
    for encoding, name, kind, opcode in forms(family):
        for place, field in places_of(family, name, kind):
            if not few or not type_of(family, name, place).endswith("32"):
                try:
                    result = difference(family, encoding, name, kind, opcode, place, field, few=few) or "same"
                except UnknownInstructionError as error:
                    result = f"refused: {error}"
                print(json.dumps([family, f"{encoding} {name} {place}", result]))


if __name__ == "__main__":
    sys.exit(main())
