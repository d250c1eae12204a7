"""Compare numbers of single instructions with a second opinion: conversions, products, arithmetic, published results.

Each line of the output is JSON: a name, a target, and what was wrong first (empty: nothing). The layouts of products
are the rules of AMD's matrix instruction calculator.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
from gfx_1250 import numbers_of_gfx1250
from gfx_blocks import blocks, patterns
from gfx_execute import RESULT, SECOND, USUAL, differ, encoded, executed, first
from gfx_moves import moves
from gfx_older import older, parts
from gfx_published import PUBLISHED

OVERFLOW = 1 << 23  # of MODE
ONE = 242  # the operand that is 1.0
OLD = {"fp8": ml_dtypes.float8_e4m3fnuz, "bf8": ml_dtypes.float8_e5m2fnuz}
NEW = {"fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2}
TYPES = {"gfx942": OLD, "gfx950": NEW, "gfx1201": NEW}
GFX12 = ("gfx1201", "gfx1250")
OTHERS = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def in_blocks(target: str, values: Any) -> Iterator[Any]:
    lanes = 32 if target.startswith("gfx1") else 64
    yield from values.reshape(-1, lanes)


def widened(target: str, name: str) -> str:
    """Convert every byte at every place of a register."""
    kind, all_bytes = TYPES[target][name], np.arange(256, dtype=np.uint8)
    right = all_bytes.view(kind).astype(np.float32)
    for place in range(4):
        if target == "gfx1201":  # op_sel names a byte with its bits exchanged
            code = encoded(
                target, "VOP3", f"v_cvt_f32_{name}", vdst=RESULT, src0=256, opsel=place >> 1 | place << 1 & 2
            )
        else:
            code = encoded(target, "VOP1_SDWA", f"v_cvt_f32_{name}", vdst=RESULT, src0=249, src0_sel=place, dst_sel=6)
        words = all_bytes.astype(np.uint32) << 8 * place | 0x5A5A5A5A & ~(255 << 8 * place)
        got = [executed(target, code, {0: block})[RESULT] for block in in_blocks(target, words)]
        values = np.concatenate(got).view(np.float32)
        if told := first(differ(values, right), all_bytes, values, right):
            return f"byte {place}: {told}"
    return ""


def widened_pairs(target: str, name: str, other: str = "f32", scaled: bool = False) -> str:
    kind, draw = TYPES[target][name], np.random.default_rng(1)
    words = np.arange(1 << 16, dtype=np.uint32)[:: 257 if scaled else 31][:2048]
    words = words[: words.size // 64 * 64]
    powers = draw.integers(0 if other == "f32" else 110, 256 if other == "f32" else 145, words.size)
    factor = np.where(powers == 255, np.nan, 2.0 ** (powers - 127.0)) if scaled else np.ones(words.size)
    pairs = words.astype(np.uint16).view(np.uint8).view(kind).reshape(-1, 2).astype(np.float64) * factor[:, None]
    for half in range(2):
        if scaled or target == "gfx1201":
            code = encoded(target, "VOP3", f"v_cvt_{'scalef32_' * scaled}pk_{other}_{name}", vdst=RESULT, src0=256,
                           src1=257, opsel=half)  # fmt: skip
        else:
            code = encoded(
                target, "VOP1_SDWA", f"v_cvt_pk_f32_{name}", vdst=RESULT, src0=249, src0_sel=4 + half, dst_sel=6
            )
        scales = powers.astype(np.uint32) << 23
        blocks = zip(in_blocks(target, words << 16 * half), in_blocks(target, scales), strict=True)
        got = np.concatenate(
            [executed(target, code, {0: block, 1: scale})[RESULT : RESULT + 2] for block, scale in blocks], 1
        )
        values = got.T.copy().view(np.float32) if other == "f32" else got[0].copy().view(OTHERS[other]).reshape(-1, 2)
        with np.errstate(all="ignore"):
            right = pairs.astype(OTHERS[other])
        if told := first(differ(values, right), np.repeat(words, 2), values.ravel(), right.ravel()):
            return f"half {half}: {told}"
    return ""


def near(kind: Any) -> Any:
    """Return all numbers of a type in fp32, those between them, their neighbours, and some that are too large."""
    own = np.arange(256, dtype=np.uint8).view(kind).astype(np.float32)
    own = np.sort(own[np.isfinite(own)])
    middle = ((own[1:].astype(np.float64) + own[:-1]) / 2).astype(np.float32)
    large = np.array(
        [own[-1] * factor for factor in (1.01, 1.03, 1.035714, 1.04, 1.0625, 1.07, 1.1, 1.124, 1.125, 2, 1e9)],
        np.float32,
    )
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-30], np.float32)
    beside = [np.nextafter(middle, np.float32(end)) for end in (-np.inf, np.inf)]
    values = np.concatenate([own, middle, *beside, large, -large, special])
    return np.concatenate([values, np.ones(-values.size % 64, np.float32)])


def narrowed(target: str, name: str, scaled: bool = False) -> str:
    """Convert pairs of numbers into each half of a register; MODE says what becomes of numbers that are too large."""
    kind = TYPES[target][name]
    values, most = near(kind), float(ml_dtypes.finfo(kind).max)
    scale = 4.0 if scaled else 1.0
    for half, mode in itertools.product(range(2), (USUAL, USUAL | OVERFLOW, USUAL | 0xF)):
        code = encoded(target, "VOP3", f"v_cvt_{'scalef32_' * scaled}pk_{name}_f32", vdst=RESULT, src0=256, src1=257,
                       src2=258, opsel=half << 3)  # fmt: skip
        old, scales = np.full(64, 0xABCDEF12, np.uint32), np.full(64, np.float32(scale * 1.7)).view(np.uint32)
        given = [(block * np.float32(scale)).view(np.uint32) for block in in_blocks(target, values)]
        registers = ({0: one, 1: one[::-1], 2: scales, RESULT: old[: one.size]} for one in given)
        got = np.concatenate([executed(target, code, each, mode)[RESULT] for each in registers])
        result = np.clip(values, -most, most) if mode & OVERFLOW else values
        with np.errstate(all="ignore"):
            right = result.astype(kind)
        made, second = ((got >> 16 * half + shift & 255).astype(np.uint8).view(kind) for shift in (0, 8))
        of_second = np.concatenate([block[::-1] for block in in_blocks(target, right)])
        if told := first(differ(made, right), values, made, right) or first(
            differ(second, of_second), second, of_second
        ):
            return f"mode {mode:#x}, half {half}: {told}"
        kept = 0xEF12 if half else 0xABCD
        if (got >> 16 * (1 - half) & 0xFFFF != kept).any():
            return f"half {half}: the other one is not kept"
    return ""


def factor(kind: Any, rows: int, depth: int, draw: Any) -> Any:
    if np.dtype(kind).kind in "iu":
        return draw.integers(np.iinfo(kind).min, np.iinfo(kind).max, (rows, depth), kind, endpoint=True)
    return (draw.standard_normal((rows, depth)) * 2).astype(np.float32).astype(kind)


def placed(matrix: Any, depth_of: Callable[[int, int], int], each: int, lanes: int) -> Any:
    """Return the registers of a factor: four bytes of a row in each, at the depth that each lane has."""
    rows = matrix.shape[0]
    content = np.array([[matrix[lane % rows, depth_of(lane, k)] for k in range(each)] for lane in range(lanes)])
    return content.view(np.uint32).T.copy()


def multiplied(target: str, name: str, left: Any, right: Any, constant: float = 0.0, **fields: int) -> str:
    """Multiply bytes, and compare all bits: sums of these products are exact in fp64."""
    is_cdna, draw = target.startswith("gfx9"), np.random.default_rng(2)
    size, depth = (int(name.split("x")[k].split("_")[-1 if k == 0 else 0]) for k in (0, 2))
    lanes = 64 if is_cdna else 32
    each = depth if target == "gfx1100" else depth * size // lanes
    a, b = factor(left, size, depth, draw), factor(right, size, depth, draw)
    whole = np.dtype(left).kind in "iu"
    added = (
        draw.integers(-(2**31), 2**31 - 1, (size, size)) if whole else draw.standard_normal((size, size)).astype("f")
    )
    if whole:
        added[:2] = [[2**31 - 1], [-(2**31)]]  # so that sums go around the ends
    block = each // 2 if target == "gfx1250" and depth >= 32 else each  # which the halves of a wave have in turn
    depth_of = (
        (lambda lane, k: k)
        if target == "gfx1100"
        else (lambda lane, k: (k // block * (lanes // size) + lane // size) * block + k % block)
    )
    where = [[row_of(target, size, k, lane) for lane in range(lanes)] for k in range(size * size // lanes)]
    columns = np.arange(lanes) % size
    kind = np.int32 if whole else np.float32
    if narrow := re.match(r"v_wmma_(b?f16)", name):
        kind = OTHERS[narrow[1]]
    added = np.full_like(added, constant, kind) if constant else added.astype(kind)
    sums = dict(enumerate(in_registers(target, added[where, columns], **fields), RESULT))
    factors = {start + k: one for start, matrix in ((0, a), (SECOND, b))
               for k, one in enumerate(placed(matrix, depth_of, each, lanes))}  # fmt: skip
    encoding = "VOP3P_MFMA" if is_cdna else "VOP3P"
    summand = ONE if constant else 256 + RESULT
    code = encoded(target, encoding, name, vdst=RESULT, src0=256, src1=256 + SECOND, src2=summand, **fields)
    after = executed(target, code, factors | sums)
    exact = a.astype(np.float64) @ b.astype(np.float64).T + added.astype(np.float64)
    result = (exact.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.int32) if whole else exact.astype(kind)
    wanted = in_registers(target, result[where, columns], **fields)
    got = after[RESULT : RESULT + len(wanted)]
    return first(got != wanted, got.ravel(), wanted.ravel())


def in_registers(target: str, values: Any, opsel: int = 0, **_: int) -> Any:
    """Return the registers of a sum: of halves two in each on gfx1201, and elsewhere one beside what stays."""
    if values.dtype.itemsize == 4:
        return values.view(np.uint32)
    bits = values.view(np.uint16).astype(np.uint32)
    if target in GFX12:
        return bits[::2] | bits[1::2] << 16
    return bits << 16 | 0xA5C3 if opsel & 4 else bits | 0xA5C30000


def row_of(target: str, size: int, register: int, lane: int) -> int:
    if target == "gfx1100":
        return 2 * register + lane // 16
    if target in GFX12:
        return register + 8 * (lane // 16)
    return 8 * (register // 4) + 4 * (lane // 32) + register % 4 if size == 32 else 4 * (lane // 16) + register


def products() -> Iterator[tuple[str, str, str]]:
    for left, right in itertools.product(("fp8", "bf8"), repeat=2):
        for target, names in {
            "gfx942": ("v_mfma_f32_16x16x32_{}_{}", "v_mfma_f32_32x32x16_{}_{}"),
            "gfx950": ("v_mfma_f32_16x16x128_f8f6f4", "v_mfma_f32_32x32x64_f8f6f4", "v_mfma_f32_16x16x32_{}_{}"),
            "gfx1201": ("v_wmma_f32_16x16x16_{}_{}",),
            "gfx1250": ("v_wmma_f32_16x16x64_{}_{}", "v_wmma_f32_16x16x128_{}_{}"),
        }.items():
            for name in (one.format(left, right) for one in names):
                kinds = TYPES.get(target, NEW)[left], TYPES.get(target, NEW)[right]
                formats = {"cbsz": int(left == "bf8"), "blgp": int(right == "bf8")} if "f8f6f4" in name else {}
                yield f"{name} {left} {right}", target, multiplied(target, name, *kinds, **formats)
    for target, shapes in {
        "gfx90a": ("16x16x16", "32x32x8"),
        "gfx942": ("16x16x32", "32x32x16"),
        "gfx950": ("16x16x64", "32x32x32"),
    }.items():
        for name in (f"v_mfma_i32_{shape}_i8" for shape in shapes):
            yield name, target, multiplied(target, name, np.int8, np.int8)
    for target, signs in itertools.product(("gfx1100", *GFX12), range(4)):
        kinds = [np.int8 if signs >> place & 1 else np.uint8 for place in range(2)]
        name = f"v_wmma_i32_16x16x{64 if target == 'gfx1250' else 16}_iu8"
        yield f"{name} {signs}", target, multiplied(target, name, *kinds, neg=signs)
    for kind, depth in (("f32", 4), ("f16", 32), ("bf16", 32)):
        name = f"v_wmma_f32_16x16x{depth}_{kind}"
        yield name, "gfx1250", multiplied("gfx1250", name, OTHERS[kind], OTHERS[kind])


def narrow_sums() -> Iterator[tuple[str, str, str]]:
    """Multiply halves with a sum of halves; on gfx1100 it is in either half of a register."""
    for name, (target, opsel) in itertools.product(("f16", "bf16"), (("gfx1100", 0), ("gfx1100", 4), ("gfx1201", 0))):
        product = f"v_wmma_{name}_16x16x16_{name}"
        yield f"{product} {opsel}", target, multiplied(target, product, OTHERS[name], OTHERS[name], opsel=opsel)
    for name in ("f16", "bf16"):
        product = f"v_wmma_{name}_16x16x32_{name}"
        yield product, "gfx1250", multiplied("gfx1250", product, OTHERS[name], OTHERS[name])
    for target, name in itertools.product(("gfx1100", *GFX12), ("f16", "bf16")):
        product = f"v_wmma_{name}_16x16x{32 if target == 'gfx1250' else 16}_{name}"
        yield f"{product} of 1.0", target, multiplied(target, product, OTHERS[name], OTHERS[name], 1.0)


def angles() -> Iterator[tuple[str, str, str]]:
    """Take each part of 2 / pi that an angle in fp64 is multiplied with, for angles of three sizes."""
    with mpmath.workprec(1400):
        all_bits = int(mpmath.floor(mpmath.ldexp(2 / mpmath.pi, 1201))) << 2000
    numbers = np.arange(24, dtype=np.uint32)
    for power in (0, 100, 1000):
        angle = np.full(24, 2.0**power).view(np.uint32).reshape(-1, 2)
        code = encoded("gfx1100", "VOP3", "v_trig_preop_f64", vdst=RESULT, src0=256, src1=256 + SECOND)
        after = executed("gfx1100", code, {0: angle[:, 0].copy(), 1: angle[:, 1].copy(), SECOND: numbers})
        got = after[RESULT : RESULT + 2, :24].T.copy().view(np.float64).ravel()
        shifts = [53 * int(number) + max(0, power - 54) for number in numbers]
        scale = 128 if power >= 945 else 0
        right = [math.ldexp((all_bits >> 3148 - shift) % 2**53, scale - 53 - shift) for shift in shifts]
        yield f"v_trig_preop_f64 {power}", "gfx1100", first(got != np.array(right), numbers, got, np.array(right))


def conversions() -> Iterator[tuple[str, str, str]]:
    for target, name in itertools.product(TYPES, ("fp8", "bf8")):
        yield f"f32 of {name}", target, widened(target, name)
        yield f"two f32 of {name}", target, widened_pairs(target, name)
        yield f"{name} of f32", target, narrowed(target, name)
    for name in ("fp8", "bf8"):
        yield f"scaled {name} of f32", "gfx950", narrowed("gfx950", name, scaled=True)
        for other in OTHERS:
            yield f"scaled {other} of {name}", "gfx950", widened_pairs("gfx950", name, other, scaled=True)


# Of a type: the digits, the least exponent, the largest number.
FORMATS = {
    np.float16: (11, -14, 65504.0),
    np.float32: (24, -126, 2.0**128 - 2.0**104),
    np.float64: (53, -1022, sys.float_info.max),
}
# Of an operation: the types of its operands, the type of its result, and what it makes of exact numbers.
OPERATIONS: dict[str, tuple[tuple[Any, ...], Any, Callable[..., Any]]] = {
    "v_add_f32": ((np.float32, np.float32), np.float32, lambda a, b: a + b),
    "v_mul_f32": ((np.float32, np.float32), np.float32, lambda a, b: a * b),
    "v_fma_f32": ((np.float32,) * 3, np.float32, lambda a, b, c: a * b + c),
    "v_max_f32": ((np.float32, np.float32), np.float32, max),
    "v_add_f16": ((np.float16, np.float16), np.float16, lambda a, b: a + b),
    "v_mul_f16": ((np.float16, np.float16), np.float16, lambda a, b: a * b),
    "v_add_f64": ((np.float64, np.float64), np.float64, lambda a, b: a + b),
    "v_mul_f64": ((np.float64, np.float64), np.float64, lambda a, b: a * b),
    "v_cvt_f16_f32": ((np.float32,), np.float16, lambda a: a),
    "v_cvt_f32_f64": ((np.float64,), np.float32, lambda a: a),
    "v_cvt_f64_f32": ((np.float32,), np.float64, lambda a: a),
    "v_cvt_f32_i32": ((np.int32,), np.float32, lambda a: a),
}
NEAREST, UP, DOWN, ZERO = range(4)


def rounded(exact: Fraction, kind: Any, mode: int) -> float:
    """Round an exact number to a type as MODE says."""
    digits, least, most = FORMATS[kind]
    way = mode >> (0 if kind is np.float32 else 2) & 3
    if exact == 0:
        return 0.0
    power = exact.numerator.bit_length() - exact.denominator.bit_length()
    power -= abs(exact) < Fraction(2) ** power
    power = max(power, least) - digits + 1
    scaled = exact / Fraction(2) ** power
    whole = {NEAREST: round, UP: math.ceil, DOWN: math.floor, ZERO: math.trunc}[way](scaled)
    result = whole * Fraction(2) ** power
    if abs(result) > most:
        stays = (mode & OVERFLOW and kind is np.float16) or way == ZERO or way == (DOWN if exact > 0 else UP)
        return (most if stays else math.inf) * (1 if exact > 0 else -1)
    is_tiny = abs(result) < Fraction(2) ** least
    return 0.0 if is_tiny and kind is np.float32 and not mode >> 5 & 1 else float(result)


def taken(value: Any, mode: int) -> Fraction:
    """Return a number as an operation takes it: a subnormal one of fp32 may be zero."""
    is_zero = isinstance(value, np.float32) and abs(value) < 2.0**-126 and not mode >> 4 & 1
    return Fraction(0) if is_zero else Fraction(value.item())


def drawn(kind: Any, draw: random.Random) -> Any:
    """Return 64 numbers: of moderate size, at the upper end, and subnormal."""
    if kind is np.int32:
        return np.array([draw.getrandbits(draw.randrange(1, 32)) - 2**20 for _ in range(64)], np.int64).astype(np.int32)
    digits, least, most = FORMATS[kind]
    sizes = (1.0, 1.0, 1e-3, 2.0**least, 2.0 ** (least - digits // 2), most / 2, most / 4)
    return np.array([draw.uniform(-2, 2) * draw.choice(sizes) for _ in range(64)]).astype(kind)


def obeyed(name: str, mode: int) -> str:
    """Execute an operation in a MODE, and compare with the exact result, rounded."""
    kinds, kind, exact = OPERATIONS[name]
    draw = random.Random(f"{name} {mode}")
    operands = [drawn(one, draw) for one in kinds]
    registers = {}
    for place, values in enumerate(operands):
        words = values.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[values.itemsize])
        registers |= {
            2 * place: words.astype(np.uint32),
            2 * place + 1: (words.astype(np.uint64) >> 32).astype(np.uint32),
        }
    code = encoded("gfx942", "VOP3", name, vdst=RESULT, src0=256, src1=258, src2=260)
    after = executed("gfx942", code, registers, mode)[RESULT : RESULT + 2]
    got = (after[0] | after[1].astype(np.uint64) << 32).astype(f"u{np.dtype(kind).itemsize}").view(kind)
    right = np.array(
        [rounded(exact(*(taken(one, mode) for one in row)), kind, mode) for row in zip(*operands, strict=True)]
    )
    return first(got.astype(float) != right, *operands, got, right)


def of_infinity() -> str:
    """Convert infinity where MODE makes the largest number of what is too large: it stays infinity."""
    code = encoded("gfx942", "VOP3", "v_cvt_f16_f32", vdst=RESULT, src0=256)
    got = executed("gfx942", code, {0: np.full(64, np.inf, np.float32).view(np.uint32)}, USUAL | OVERFLOW)[RESULT]
    return first(got != 0x7C00, got)


def arithmetic() -> Iterator[tuple[str, str, str]]:
    modes = [ways | kept << 4 for ways in (0, 5, 10, 15, 1, 8) for kept in (12, 13, 14, 15)]
    for name in OPERATIONS:
        told = (f"{mode:#x}: {found}" for mode in [*modes, USUAL | OVERFLOW] if (found := obeyed(name, mode)))
        yield name, "gfx942", next(told, "")
    yield "v_cvt_f16_f32 of infinity", "gfx942", of_infinity()


def published() -> Iterator[tuple[str, str, str]]:
    """Execute single instructions on the operands of which LLVM publishes the result."""
    for (name, rows), target in itertools.product(PUBLISHED.items(), ("gfx942", "gfx1100")):
        *operands, results = (np.array(column, object) for column in zip(*rows, strict=True))
        registers = {}
        for place, values in enumerate(operands):
            registers |= {2 * place + half: (values >> 32 * half & 0xFFFFFFFF).astype(np.uint32) for half in (0, 1)}
        other = {"v_cvt_pkrtz_f16_f32": "v_cvt_pk_rtz_f16_f32"}.get(name, name) if target == "gfx1100" else name
        code = encoded(target, "VOP3", other, vdst=RESULT, src0=256, src1=258, src2=260)
        got = executed(target, code, registers)[RESULT, : len(rows)]
        right = (results & 0xFFFFFFFF).astype(np.uint32)
        wrong = differ(got.view(np.float32), right.view(np.float32)) if 0x7FC00000 in right else got != right
        yield f"published {name}", target, first(wrong, *operands, got, right)


def main() -> None:
    for name, target, wrong in itertools.chain(
        conversions(),
        products(),
        narrow_sums(),
        angles(),
        arithmetic(),
        published(),
        older(),
        parts(),
        moves(),
        numbers_of_gfx1250(),
        blocks(),
        patterns(),
    ):
        print(json.dumps([name, target, wrong]))


if __name__ == "__main__":
    sys.exit(main())
