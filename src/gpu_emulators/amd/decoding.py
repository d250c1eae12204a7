"""Decode machine code. This is the only module that knows tinygrad, whose wheel has AMD's tables of encodings.

Of tinygrad it uses private names, so it needs exactly the version :data:`VERSION`. What the wheel lacks is mended here:
its tables of RDNA have no buffer instructions, although it describes their encoding, and some opcodes of older
targets are others on gfx942, which is what it decodes.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Any

from gpu_emulators.amd import gfx1250
from gpu_emulators.amd.code_object import CodeObject, Kernel
from gpu_emulators.amd.instruction import Instruction
from gpu_emulators.amd.names import CALLS
from gpu_emulators.amd.rdna2 import in_table, name_in_table
from gpu_emulators.common.errors import EmulatorError, UnknownInstructionError

VERSION = "0.14.0"  # of tinygrad
FAMILIES = {"gfx9": "cdna", "gfx103": "rdna3", "gfx11": "rdna3", "gfx12": "rdna4"}
TARGETS = (
    *("gfx906", "gfx908", "gfx90a", "gfx942", "gfx950"),
    *("gfx1030", "gfx1100", "gfx1150", "gfx1151", "gfx1200", "gfx1201", "gfx1250"),
)
RDNA2 = ("gfx1030",)
GFX1250 = ("gfx1250",)
PRELOADED_ENTRY = 256  # bytes in front of the code that finds its arguments in registers
_SDWA = 249  # as the first source: the second word says which parts of registers are meant
_WITH_PARTS = {"VOP1": "VOP1_SDWA", "VOP2": "VOP2_SDWA", "VOPC": "VOPC_SDWA_SDST"}  # of CDNA, which RDNA 2 shares
_LONGEST = 16  # bytes of an instruction
_SUFFIX = re.compile(r"_(e32|e64|vop3)$")
_FORMAT = re.compile(r"FMT_(NUM_)?")
_SOURCES = ("s0", "s1", "s2")
_SINGLE = "f32"  # the kind of all operands of the opcodes that only older targets have
# What older targets of GFX9 have where the table, which is of gfx942 and gfx950, has other operations.
_BEFORE_GFX90A = ("gfx906", "gfx908")
_BEFORE_GFX942 = (*_BEFORE_GFX90A, "gfx90a")
_NAMES_BEFORE_GFX942 = {
    "v_dot2c_f32_bf16": "v_mac_f32",
    "v_fmamk_f32": "v_madmk_f32",
    "v_fmaak_f32": "v_madak_f32",
}
_NAMES_BEFORE_GFX90A = {"v_fmac_f64": "v_mul_legacy_f32"}
_MATRIX_OPCODES_BEFORE_GFX942 = {
    0x54: "v_mfma_i32_32x32x8_i8",
    0x55: "v_mfma_i32_16x16x16_i8",
    0x68: "v_mfma_f32_32x32x2_2b_bf16",
    0x69: "v_mfma_f32_16x16x2_4b_bf16",
    0x6B: "v_mfma_f32_4x4x2_16b_bf16",
    0x6C: "v_mfma_f32_32x32x4_bf16",
    0x6D: "v_mfma_f32_16x16x8_bf16",
}
_MATRIX_OPCODES_OF_GFX90A = {
    **_MATRIX_OPCODES_BEFORE_GFX942,
    0x63: "v_mfma_f32_32x32x4_2b_bf16",
    0x64: "v_mfma_f32_16x16x4_4b_bf16",
    0x65: "v_mfma_f32_4x4x4_16b_bf16",
    0x66: "v_mfma_f32_32x32x8_bf16",
    0x67: "v_mfma_f32_16x16x16_bf16",
}
_SCALES = 0xD3AC  # what a product of matrices with scales begins with; the decoder looks at the second half alone
_MATRIX, _MATRIX_MASK, _ANY_MATRIX = 0xD3C00000, 0xFFC00000, 0x44  # the encoding of matrix products; an opcode of it
_SUM_IN_ACCUMULATORS = 1 << 15  # of matrix products: gfx908 has no such bit, as it has no other place for a sum
_MAD, _FMA = 0xD1C10000, 0xD1CB0000  # v_mad_f32, which gfx942 has no more, and v_fma_f32 of the same form
_CACHE_OPCODES_BEFORE_GFX942 = (0b111000 << 8 | 0x3E, 0b111000 << 8 | 0x3F)  # buffer_wbinvl1, and with _vol


def family_of(target: str) -> str:
    """Return the family of a target whose encodings are the same.

    Raises:
        EmulatorError: the emulator has no such target.
    """
    if target not in TARGETS:
        raise EmulatorError(f"there is no target {target!r}; there are {', '.join(TARGETS)}")
    return next(family for prefix, family in FAMILIES.items() if target.startswith(prefix))


def whole(code: CodeObject, kernel: Kernel, target: str) -> tuple[list[Instruction], list[int]]:
    """Return the instructions of a kernel, and where they begin; of all functions of its object too where it calls any.

    Raises:
        UnknownInstructionError: bytes are no instruction of the target.
    """
    instructions, starts = decode(kernel.text, target), [0, PRELOADED_ENTRY]
    if any(one.name in CALLS for one in instructions):
        for address, text in code.functions.items():
            starts.append(address - kernel.address)
            instructions += decode(text, target, starts[-1])
    return instructions, starts


def decode(text: bytes, target: str, start: int = 0) -> list[Instruction]:
    """Return the instructions of machine code that begins so many bytes behind the kernel's beginning.

    Raises:
        UnknownInstructionError: bytes are no instruction of the target.
    """
    family, at, instructions = family_of(target), 0, []
    while at < len(text):
        instruction = _decoded(text[at : at + _LONGEST].ljust(_LONGEST, b"\0"), family, target, start + at)
        instructions.append(instruction)
        at += instruction.size
    return gfx1250.with_upper_registers(instructions) if target in GFX1250 else instructions


def _decoded(data: bytes, family: str, target: str, address: int) -> Instruction:
    word = int.from_bytes(data[:4], "little")
    if target in _BEFORE_GFX942:
        if (word >> 26 << 8 | word >> 18 & 127) in _CACHE_OPCODES_BEFORE_GFX942:
            return Instruction(address, 8, "MUBUF", "buffer_inv", word, {}, frozenset(), None)
        data = _in_table(word, target).to_bytes(4, "little") + data[4:]
    if target in RDNA2:
        data = _of_rdna2(data, target, address)
    if target in GFX1250 and (one := _of_gfx1250(data, target, address)):
        return one
    if family == "cdna" and word >> 16 != _SCALES:
        data = data[:8].ljust(_LONGEST, b"\0")
    try:
        found = _decoder()(data, family)
    except ValueError as error:
        raise UnknownInstructionError(f"{target}: {error} at {address:#x}") from None
    encoding, raw = type(found).__name__, found._raw
    fields = {name: raw >> low & mask for name, low, mask in _positions(found.__class__)}
    size, literal = found.size(), found._literal
    if target in RDNA2 and word & 511 == _SDWA and (parts := _WITH_PARTS.get(encoding.split("_")[0])):
        encoding, raw, literal = parts, int.from_bytes(data[:8], "little"), None
        size, positions = 8, _positions(_of_family("cdna", encoding))
        fields = {name: raw >> low & mask for name, low, mask in positions}
    name, is_older = _name(found, encoding, word, target)
    bits = dict.fromkeys(("s0", "s1", "s2", "d"), 32) if is_older else found.canonical_op_bits
    one = Instruction(
        address,
        size,
        encoding,
        name,
        raw,
        fields,
        frozenset(place for place in range(3) if bits[f"s{place}"] == 64),
        literal,
        max(1, bits["d"] // 32),
        found.num_srcs(),
        (_SINGLE,) * 3 if is_older else _kinds(found),
    )
    return gfx1250.with_own_fields(one, data) if target in GFX1250 else one


def _of_gfx1250(data: bytes, target: str, address: int) -> Instruction | None:
    """Return an instruction of gfx1250 that RDNA 4 lacks."""
    try:
        found = gfx1250.found(data)
    except UnknownInstructionError as error:
        raise UnknownInstructionError(f"{target}: {error} (at {address:#x} of the kernel)") from None
    if found is None:
        return None
    raw = int.from_bytes(data[: found.size], "little")
    is_long = found.encoding == "VOPD_LONG"
    positions = gfx1250.LONG_PAIR if is_long else _positions(_of_family("rdna4", found.encoding))
    kinds = (*found.kinds, "", "", "")[:3]
    one = Instruction(
        address,
        found.size,
        found.encoding,
        found.name,
        raw,
        {name: raw >> low & mask for name, low, mask in positions},
        frozenset(place for place, kind in enumerate(kinds) if kind.endswith("64") or kind == "pk2_f32"),
        found.literal,
        max(1, found.result),
        len(found.kinds),
        kinds,
    )
    return gfx1250.with_own_fields(one, data)


def _of_rdna2(data: bytes, target: str, address: int) -> bytes:
    try:
        return in_table(data)
    except UnknownInstructionError as error:
        raise UnknownInstructionError(f"{target}: {error} (at {address:#x} of the kernel)") from None


def _kinds(found: Any) -> tuple[str, ...]:
    """Return the kind of number that each source is; empty where the table has none."""
    operands = found.canonical_operands
    return tuple(_FORMAT.sub("", operands[place][0].name).lower() if place in operands else "" for place in _SOURCES)


def _in_table(word: int, target: str) -> int:
    """Return the first word of an instruction of an older target in a form that the table has."""
    if word & 0xFFFF0000 == _MAD:
        return word & 0xFFFF | _FMA
    if word & _MATRIX_MASK != _MATRIX:
        return word
    if word >> 16 & 127 in _matrix_opcodes(target):
        word = word & ~(127 << 16) | _ANY_MATRIX << 16
    return word | (_SUM_IN_ACCUMULATORS if target == "gfx908" else 0)


def _matrix_opcodes(target: str) -> Mapping[int, str]:
    return _MATRIX_OPCODES_OF_GFX90A if target == "gfx90a" else _MATRIX_OPCODES_BEFORE_GFX942


def _name(found: Any, encoding: str, word: int, target: str) -> tuple[str, bool]:
    """Return the name of an instruction whose first word is ``word``, and whether the table has another one there."""
    if encoding.startswith("VOPD"):
        return f"{found.opx.name.lower()} {found.opy.name.lower()}", False
    name = _SUFFIX.sub("", found.op.name.lower())
    if target in RDNA2:
        return name_in_table(word, name), False
    if target in _BEFORE_GFX942:
        if word & 0xFFFF0000 == _MAD:
            return "v_mad_f32", False
        if word & _MATRIX_MASK == _MATRIX:
            return _matrix_opcodes(target).get(word >> 16 & 127, name), False
        if name in _NAMES_BEFORE_GFX942:
            return _NAMES_BEFORE_GFX942[name], True
    if target in _BEFORE_GFX90A and name in _NAMES_BEFORE_GFX90A:
        return _NAMES_BEFORE_GFX90A[name], True
    return name, False


@functools.cache
def _positions(kind: Any) -> tuple[tuple[str, int, int], ...]:
    """Return the names of an encoding's fields, each with its lowest bit and its mask."""
    return tuple((name, field.lo, field.mask) for name, field in kind._fields)


@functools.cache
def _of_family(family: str, encoding: str) -> Any:
    """Return the fields of an encoding of a family."""
    return getattr(import_module(f"tinygrad.runtime.autogen.amd.{family}.ins"), encoding)


@functools.cache
def _decoder() -> Any:
    """Return tinygrad's decoder, with tables that have the buffer instructions of RDNA.

    Raises:
        EmulatorError: tinygrad is not here, or in another version.
    """
    try:
        here = version("tinygrad")
    except ImportError:
        raise EmulatorError(f"tinygrad is not installed: pip install tinygrad=={VERSION}") from None
    if here != VERSION:
        raise EmulatorError(f"tinygrad {here} is installed, and the emulator reads the tables of {VERSION} alone")
    from tinygrad.renderer import amd
    from tinygrad.runtime.autogen.amd.rdna3.ins import MUBUF
    from tinygrad.runtime.autogen.amd.rdna4.ins import VBUFFER

    tables = amd._load_formats()
    for family, lacking in (("rdna3", MUBUF), ("rdna4", VBUFFER)):
        if lacking not in tables[family]:
            tables[family].insert(0, lacking)
    return amd.decode_inst


def pseudocode(family: str) -> dict[str, str]:
    """Return AMD's description of each opcode as pseudocode, by the opcode's name."""
    _decoder()
    table = import_module(f"tinygrad.runtime.autogen.amd.{family}.str_pcode").PCODE
    return {_SUFFIX.sub("", opcode.name.lower()): text for opcode, text in table.items()}


def digest(family: str) -> str:
    """Return a hash of the encodings of a family: of their names, fields and opcodes."""
    return hashlib.sha256("\n".join(_described(family)).encode()).hexdigest()[:16]


def _described(family: str) -> Iterator[str]:
    _decoder()
    from tinygrad.renderer import amd

    for kind in amd._load_formats()[family]:
        for name, field in kind._fields:
            opcodes = sorted(one.name for one in getattr(field, "allowed", None) or ())
            yield f"{kind.__name__} {name} {type(field).__name__} {field.lo} {field.mask} {' '.join(opcodes)}"
