"""Instructions of RDNA 2 in the form that RDNA 3 has for them: the decoder's tables begin with RDNA 3.

Both have the same encodings, with other numbers of opcodes, and with some fields at other places. The numbers are
LLVM's; ``tests/toolchains/test_gfx_assembled.py`` compares them with its assembler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gpu_emulators.common.errors import UnknownInstructionError

Run = tuple[int, int, int]  # the first opcode of RDNA 2, that of RDNA 3, and how many follow each other in both

_VOP1 = ((0, 0, 9), (10, 10, 17), (32, 32, 6), (39, 39, 1), (42, 42, 2), (46, 46, 2), (49, 49, 1), (51, 51, 14),
         (66, 66, 3), (72, 72, 1), (80, 80, 22), (104, 104, 1))  # fmt: skip
_VOP2 = ((1, 1, 12), (13, 2, 1), (15, 15, 6), (22, 25, 1), (24, 26, 1), (26, 24, 1), (27, 27, 4), (37, 37, 3),
         (40, 32, 3), (43, 43, 3), (47, 47, 1), (50, 50, 7), (57, 57, 4))  # fmt: skip
_VOPC = (
    (0, 16, 16), (16, 144, 16), (32, 32, 16), (48, 160, 16), (128, 64, 8), (136, 126, 1), (137, 49, 6), (143, 125, 1),
    (144, 192, 8), (152, 254, 1), (153, 177, 6), (159, 253, 1), (160, 80, 8), (168, 127, 1), (169, 57, 6),
    (176, 208, 8), (184, 255, 1), (185, 185, 6), (192, 72, 8), (200, 0, 8), (208, 200, 8), (216, 128, 8), (224, 88, 8),
    (232, 8, 8), (240, 216, 8), (248, 136, 8),
)  # fmt: skip
_VOP3_ALONE = (
    (320, 521, 1), (322, 522, 31), (356, 807, 7), (364, 814, 1), (365, 764, 2), (367, 567, 5), (372, 815, 1),
    (373, 573, 1), (374, 766, 2), (376, 576, 1), (767, 828, 3), (771, 771, 3), (775, 825, 2), (777, 777, 6),
    (783, 768, 2), (785, 785, 3), (788, 824, 1), (793, 770, 1), (832, 577, 1), (836, 580, 4), (843, 584, 1),
    (849, 585, 9), (862, 595, 2), (864, 864, 2), (866, 796, 5), (872, 801, 4), (877, 597, 1), (879, 598, 1),
    (881, 599, 3), (885, 602, 1), (886, 805, 1), (887, 603, 2), (895, 806, 1),
)  # fmt: skip
_MEMORY = (
    (8, 16, 6), (14, 23, 1), (15, 22, 1), (24, 24, 1), (25, 36, 1), (26, 25, 1), (27, 37, 1), (28, 26, 2), (30, 29, 1),
    (31, 28, 1), (32, 30, 1), (33, 33, 1), (34, 31, 1), (35, 34, 1), (36, 32, 1), (37, 35, 1), (48, 51, 14),
    (62, 80, 3), (80, 65, 4), (85, 69, 9), (113, 43, 2),
)  # fmt: skip
_OPCODES: Mapping[str, Sequence[Run]] = {
    "VOP1": _VOP1,
    "VOP2": _VOP2,
    "VOPC": _VOPC,
    "VOP3": (
        *_VOPC,
        *((256 + old, 256 + new, count) for old, new, count in _VOP2),
        *((384 + old, 384 + new, count) for old, new, count in _VOP1),
        *_VOP3_ALONE,
    ),
    "VOP3P": ((0, 0, 20), (20, 19, 2), (22, 22, 1), (23, 23, 1), (24, 24, 1), (25, 25, 1), (32, 32, 3)),
    "SOP1": (
        (3, 0, 4), (7, 30, 2), (9, 28, 2), (11, 4, 2), (13, 22, 4), (19, 8, 12), (31, 71, 4), (36, 33, 1), (37, 35, 1),
        (38, 37, 1), (39, 49, 1), (40, 51, 1), (41, 39, 1), (42, 41, 1), (43, 43, 1), (44, 26, 2), (46, 64, 4),
        (52, 21, 1), (55, 45, 1), (56, 47, 1), (57, 53, 1), (58, 55, 1), (59, 20, 1), (60, 32, 1), (61, 34, 1),
        (62, 36, 1), (63, 48, 1), (64, 50, 1), (65, 38, 1), (66, 40, 1), (67, 42, 1), (68, 44, 1), (69, 46, 1),
        (70, 52, 1), (71, 54, 1), (73, 68, 1),
    ),
    "SOP2": (
        (0, 0, 6), (6, 18, 4), (10, 48, 2), (14, 22, 6), (20, 34, 4), (24, 28, 6), (30, 8, 6), (36, 42, 3), (39, 38, 4),
        (44, 6, 1), (46, 14, 4), (50, 50, 3), (53, 45, 2),
    ),
    "SOPC": ((0, 0, 16), (18, 16, 2)),
    "SOPK": ((0, 0, 17), (18, 17, 2), (21, 19, 2), (23, 24, 4), (27, 22, 2)),
    "SOPP": (
        (0, 0, 1), (1, 48, 1), (2, 32, 1), (3, 52, 1), (4, 33, 6), (10, 61, 1), (11, 1, 1), (12, 9, 1), (13, 2, 2),
        (15, 53, 3), (18, 16, 1), (19, 60, 1), (20, 56, 3), (23, 39, 4), (27, 49, 1), (30, 50, 1), (31, 31, 1),
        (32, 4, 2), (34, 10, 1), (35, 8, 1), (36, 17, 2), (40, 59, 1),
    ),
    "SMEM": ((0, 0, 5), (8, 8, 5), (31, 32, 2), (38, 34, 2)),
    "DS": (
        (0, 0, 22), (30, 30, 33), (64, 64, 20), (85, 121, 1), (96, 96, 20), (118, 118, 3), (126, 126, 1), (160, 160, 8),
        (176, 176, 4), (222, 222, 2), (254, 254, 2),
    ),
    "FLAT": _MEMORY,
    "MUBUF": ((0, 0, 8), *_MEMORY),
}  # fmt: skip
# The bits of the first word that name an encoding, from the longest to the shortest; the lowest bit of the opcode and
# its mask; and the places of the scalar sources, by their lowest bit and their width.
_ENCODINGS: Sequence[tuple[str, int, int, int, int, Sequence[tuple[int, int]]]] = (
    ("SOP1", 23, 0b101111101, 8, 255, ((0, 8), (16, 7))),
    ("SOPC", 23, 0b101111110, 16, 127, ((0, 8), (8, 8))),
    ("SOPP", 23, 0b101111111, 16, 127, ()),
    ("VOP1", 25, 0b0111111, 9, 255, ((0, 9),)),
    ("VOPC", 25, 0b0111110, 17, 255, ((0, 9),)),
    ("VOP3", 26, 0b110101, 16, 1023, ((32, 9), (41, 9), (50, 9))),
    ("VOP3P", 26, 0b110011, 16, 127, ((32, 9), (41, 9), (50, 9))),
    ("SMEM", 26, 0b111101, 18, 255, ((6, 7), (57, 7))),
    ("DS", 26, 0b110110, 18, 255, ()),
    ("FLAT", 26, 0b110111, 18, 127, ((48, 7),)),
    ("MUBUF", 26, 0b111000, 18, 127, ((56, 8),)),
    ("SOPK", 28, 0b1011, 23, 31, ((16, 7),)),
    ("SOP2", 30, 0b10, 23, 127, ((0, 8), (8, 8), (16, 7))),
    ("VOP2", 31, 0, 25, 63, ((0, 9),)),
)
# Opcodes that RDNA 3 lacks. They are read as others of the same form, and have these names.
_NAMES = {
    ("VOP2", 13): "v_dot4c_i32_i8",
    ("VOP3P", 20): "v_dot2_i32_i16",
    ("VOP3P", 21): "v_dot2_u32_u16",
    ("VOP3P", 22): "v_dot4_i32_i8",
    ("VOP3P", 24): "v_dot8_i32_i4",
}
_M0, _NULL = 124, 125  # RDNA 3 has them the other way round
_COMPARISONS = 256  # the first opcode of VOP3 that is none
_WITH_MASK = (296, 297, 298, 365, 366, 374, 375, 783, 784, 793)  # opcodes of VOP3 that also write one scalar
_READ_LANE = 864
_EXPECTED_FIRST = (16, 17, 48, 49, 80, 81, 112, 113)  # opcodes of DS: exchanges, whose expected value comes first
_WAIT = 12  # the opcode of SOPP


def in_table(data: bytes) -> bytes:
    """Return the bytes that begin with an instruction of RDNA 2, with this one as RDNA 3 has it.

    Raises:
        UnknownInstructionError: RDNA 3 has no such instruction.
    """
    word = int.from_bytes(data[:8], "little")
    first = word & 0xFFFFFFFF
    name, old, low, mask, scalars = _opcode(first)
    new = next((to + old - at for at, to, count in _OPCODES[name] if at <= old < at + count), None)
    if new is None:
        raise UnknownInstructionError(f"RDNA 3 has no form of the opcode {old} of {name}")
    for place, width in (*scalars, *_results(name, old)):
        if word >> place & (1 << width) - 1 in (_M0, _NULL):
            word ^= 1 << place
    if move := _MOVES.get(name):
        word = move(word, old)
    word = word & ~(mask << low) | new << low
    return word.to_bytes(8, "little") + data[8:]


def name_in_table(word: int, name: str) -> str:
    """Return the name of the instruction that begins with a word, where the tables say ``name``."""
    return _NAMES.get(_opcode(word)[:2], name)


def _opcode(word: int) -> tuple[str, int, int, int, Sequence[tuple[int, int]]]:
    """Return the encoding, the opcode, its lowest bit and its mask, and the places of scalar sources."""
    name, _, _, low, mask, scalars = next(one for one in _ENCODINGS if word >> one[1] == one[2])
    return name, word >> low & mask, low, mask, scalars


def _results(name: str, opcode: int) -> Sequence[tuple[int, int]]:
    """Return where a vector instruction names a scalar that it writes."""
    if name != "VOP3":
        return ()
    if opcode in _WITH_MASK:
        return ((8, 7),)
    return ((0, 8),) if opcode < _COMPARISONS or opcode == _READ_LANE else ()


def _moved_smem(word: int, _: int) -> int:
    return word & ~(0b11111 << 13) | (word >> 16 & 1) << 14


def _moved_ds(word: int, opcode: int) -> int:
    if opcode not in _EXPECTED_FIRST:
        return word
    return word & ~(0xFFFF << 40) | (word >> 48 & 255) << 40 | (word >> 40 & 255) << 48


def _moved_flat(word: int, _: int) -> int:
    segment, glc = word >> 14 & 3, word >> 16 & 1
    if word >> 13 & 1:
        raise UnknownInstructionError("a load to the LDS")
    offset = word & 0xFFF
    if segment and offset >> 11:
        offset |= 1 << 12
    has_address = segment == 1 and word >> 48 & 127 == _M0  # NULL, which has its new number by now
    return word & ~(0x3FFFF | 1 << 55) | offset | glc << 14 | segment << 16 | has_address << 55


def _moved_mubuf(word: int, _: int) -> int:
    if word >> 16 & 1 or word >> 55 & 1:
        raise UnknownInstructionError("a load to the LDS, or one that says what was there")
    flags = (word >> 14 & 1) << 14 | (word >> 12 & 1) << 54 | (word >> 13 & 1) << 55
    return word & ~(0b1111111 << 12 | 1 << 25 | 0b111 << 53) | flags


def _moved_sopp(word: int, opcode: int) -> int:
    if opcode != _WAIT:
        return word
    loads, exports, lds = (word & 15) | (word >> 14 & 3) << 4, word >> 4 & 7, word >> 8 & 63
    return word & ~0xFFFF | loads << 10 | lds << 4 | exports


_MOVES: Mapping[str, Callable[[int, int], int]] = {
    "SMEM": _moved_smem,
    "DS": _moved_ds,
    "FLAT": _moved_flat,
    "MUBUF": _moved_mubuf,
    "SOPP": _moved_sopp,
}
