"""Compare what only GFX9 has: products and sums that are rounded each, and parts of registers with a sign (SDWA)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from gfx_execute import LANES, RESULT, SECOND, differ, executed, first

MAD, MAC, MADMK, MADAK, ADD = 0x1C1, 0x16, 0x17, 0x18, 0x34  # opcodes: the first of VOP3, the others of VOP2
LEAST = np.float32(2.0**-126)  # normal number
SPECIAL = np.array(
    [
        0.0,
        -0.0,
        1.0,
        -1.0,
        np.inf,
        -np.inf,
        np.nan,
        LEAST,
        -LEAST,
        LEAST / 2,
        2**-149,
        3e38,
        -3e38,
        1 / 3,
        2**-63,
        2**64,
    ],
    np.float32,
)
CONSTANT = np.float32(1 / 3)
IS_SDWA, IS_LITERAL = 0xF9, 0xFF  # in place of the first source
PARTS = {
    **{byte: (8 * byte, 8) for byte in range(4)},
    4: (0, 16),
    5: (16, 16),
    6: (0, 32),
}  # the first bit, and how many


def short(opcode: int, source: int, second: int = 0) -> bytes:
    """Return an instruction with two sources, and a second word."""
    word = opcode << 25 | RESULT << 17 | SECOND << 9 | source
    return (word | second << 32).to_bytes(16, "little")


def older() -> Iterator[tuple[str, str, str]]:
    """Multiply and add numbers of all sizes: both are rounded, and subnormal numbers are zero."""
    draw = np.random.default_rng(0)
    blocks = [draw.choice(SPECIAL, (3, LANES)) for _ in range(16)]
    blocks += [
        draw.standard_normal((3, LANES), np.float32) * 2.0 ** draw.integers(-90, 60, (3, LANES)) for _ in range(16)
    ]
    constant = int(CONSTANT.view(np.uint32))
    first_of_three = (0x34 << 26 | MAD << 16 | RESULT) | (256 | 256 + SECOND << 9 | 256 + RESULT << 18) << 32
    for name, code in {
        "v_mad_f32": first_of_three.to_bytes(16, "little"),
        "v_mac_f32": short(MAC, 256),
        "v_madmk_f32": short(MADMK, 256, constant),
        "v_madak_f32": short(MADAK, 256, constant),
    }.items():
        for target in ("gfx906", "gfx90a"):
            told = (multiplied(target, name, code, *block.astype(np.float32)) for block in blocks)
            yield name, target, next(filter(None, told), "")


def multiplied(target: str, name: str, code: bytes, a: Any, b: Any, c: Any) -> str:
    registers = {0: a.view(np.uint32), SECOND: b.view(np.uint32), RESULT: c.view(np.uint32)}
    factor, summand = {"v_madmk_f32": (CONSTANT, b), "v_madak_f32": (b, CONSTANT)}.get(name, (b, c))
    with np.errstate(all="ignore"):
        right = normal(normal(normal(a) * normal(factor)) + normal(summand))
    got = executed(target, code, registers)[RESULT].view(np.float32)
    return first(differ(got, right), a, b, c, got, right)


def normal(value: Any) -> Any:
    """Return numbers with zeros for subnormal ones."""
    return np.where(np.abs(value) < LEAST, np.copysign(np.float32(0), value), value).astype(np.float32)


def parts() -> Iterator[tuple[str, str, str]]:
    """Add every part of one register to every part of another one, with and without a sign."""
    a, b = np.random.default_rng(1).integers(0, 2**32, (2, LANES), np.uint32)
    for one, other in itertools.product(itertools.product(PARTS, (0, 1)), repeat=2):
        (part, sign), (second, of_second) = one, other
        word = 6 << 8 | part << 16 | sign << 19 | second << 24 | of_second << 27
        got = executed("gfx90a", short(ADD, IS_SDWA, word), {0: a, SECOND: b})[RESULT]
        right = (part_of(a, part, sign) + part_of(b, second, of_second)).astype(np.uint32)
        if told := first(got != right, a, b, got, right):
            yield f"parts {one} {other}", "gfx90a", told
            return
    yield "parts", "gfx90a", ""


def part_of(register: Any, part: int, sign: int) -> Any:
    start, bits = PARTS[part]
    value = register.astype(np.int64) >> start & (1 << bits) - 1
    return value - ((value >> bits - 1 & sign) << bits)
