"""Several products of matrices by one instruction of CDNA, against NumPy, in the layouts of AMD's matrix calculator."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
from gfx_execute import RESULT, encoded, executed, first

from gpu_emulators.common.errors import UnknownInstructionError

LANES, FIRST, SECOND = 64, 0, 8
KINDS = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "xf32": np.float32}
SHAPES = ("4x4x{}_16b", "16x16x{}_4b", "32x32x{}_2b")
DEPTHS = {"f32": 1, "f16": 4, "bf16": 4, "i8": 4}
# By BLGP: which sixteen lanes each sixteen lanes have the second factor from.
PATTERNS = {0: (0, 1, 2, 3), 1: (0, 1) * 2, 2: (2, 3) * 2, 3: (1, 2, 3, 0), **{4 + k: (k,) * 4 for k in range(4)}}
ROUNDED = ("v_mfma_f32_16x16x8_xf32", "v_mfma_f32_32x32x4_xf32")
SINGLE = ("v_mfma_f32_32x32x2_f32", "v_mfma_f32_16x16x4_f32")
DOUBLES = ("v_mfma_f64_16x16x4_f64", "v_mfma_f64_4x4x4_4b_f64")
# Modifiers that an opcode does not have on a target: more blocks than there are, a block that is none of these, lanes.
REFUSED: Sequence[tuple[str, str, dict[str, int]]] = (
    ("gfx942", "v_mfma_f32_32x32x1_2b_f32", {"cbsz": 2}),
    ("gfx942", "v_mfma_f32_4x4x1_16b_f32", {"cbsz": 1, "abid": 2}),
    ("gfx942", "v_mfma_f32_16x16x4_f32", {"abid": 1}),
    ("gfx942", "v_mfma_f32_32x32x8_f16", {"blgp": 1}),
    ("gfx90a", "v_mfma_f64_16x16x4_f64", {"blgp": 1}),
)
NAME = re.compile(r"v_mfma_\w\d\d_(\d+)x\d+x(\d+)_(?:(\d+)b_)?(\w+)")


def form_of(name: str) -> tuple[int, int, int, str]:
    """Return the rows, the depth, the blocks and the type of an opcode."""
    rows, depth, blocks, kind = NAME.fullmatch(name).groups()
    return int(rows), int(depth), int(blocks or 1), kind


def places(shape: tuple[int, int, int]) -> Any:
    """Return the block, the row and the depth of each number of a lane: arrays of lanes and numbers."""
    blocks, rows, depth = shape
    each = blocks * rows * depth // LANES
    lane, number = np.indices((LANES, each))
    return lane // rows % blocks, lane % rows, lane // (rows * blocks) * each + number


def place_of(rows: int, register: int, lane: int) -> tuple[int, int, int]:
    """Return the block, the row and the column of a number of the result."""
    if rows == 4:
        return lane // 4, register, lane % 4
    each = rows * rows // LANES
    row = (
        8 * (register % each // 4) + 4 * (lane // 32) + register % 4 if rows == 32 else 4 * (lane // 16) + register % 4
    )
    return register // each, row, lane % rows


def with_patterns(a: Any, b: Any, cbsz: int, abid: int, blgp: int) -> tuple[Any, Any]:
    """Return both factors as the modifiers say: one block for several, and sixteen lanes for others."""
    shared = np.arange(len(a)) >> cbsz << cbsz
    turned = np.empty_like(b)
    lanes = b[places(b.shape)].reshape(4, 16, -1)
    turned[places(b.shape)] = lanes[list(PATTERNS[blgp])].reshape(LANES, -1)
    return a[shared + abid], turned


def of_ten_bits(values: Any) -> Any:
    """Return numbers with ten bits behind the point of the fraction, rounded to nearest even."""
    fraction, power = np.frexp(values)
    return np.ldexp(np.rint(fraction * 2**11), power - 11)


def multiplied(target: str, name: str, cbsz: int = 0, abid: int = 0, blgp: int = 0) -> str:
    """Return where the results of one instruction are others than NumPy's: exact sums, rounded once."""
    rows, depth, blocks, kind = form_of(name)
    kind, is_rounded = KINDS[kind], kind == "xf32"
    draw, whole = np.random.default_rng(rows), kind is np.int8

    def drawn(*shape: int) -> Any:
        return draw.integers(-128, 128, shape) if whole else draw.standard_normal(shape).astype(np.float32)

    a, b = (drawn(blocks, rows, depth).astype(kind) for _ in range(2))
    added = drawn(blocks, rows, rows).astype(np.int32 if whole else np.float32)
    left, right = (one.astype(np.float64) for one in with_patterns(a, b, cbsz, abid, blgp))
    if is_rounded:
        left, right = of_ten_bits(left), of_ten_bits(right)
    exact = np.einsum("bik,bjk->bij", left, right) + added.astype(np.float64)
    wanted = exact.astype(added.dtype)
    registers = {}
    for start, one in ((FIRST, a), (SECOND, b)):
        words = np.ascontiguousarray(one[places(one.shape)]).view(np.uint32)
        registers |= {start + k: words[:, k].copy() for k in range(words.shape[1])}
    count = rows * rows * blocks // LANES
    where = [[place_of(rows, k, lane) for lane in range(LANES)] for k in range(count)]
    put = RESULT - 16  # a result has up to 32 registers
    registers |= {put + k: np.array([added[at] for at in row]).view(np.uint32) for k, row in enumerate(where)}
    fields = {"src0": 256 + FIRST, "src1": 256 + SECOND, "src2": 256 + put, "cbsz": cbsz, "abid": abid, "blgp": blgp}
    encoding = "VOP3P" if is_rounded else "VOP3P_MFMA"  # where the table has the opcode
    got = executed(target, encoded(target, encoding, name, vdst=put, **fields), registers)
    got = got[put : put + count].view(added.dtype)
    expected = np.array([[wanted[at] for at in row] for row in where])
    return first(got != expected, got.ravel(), expected.ravel())


def of_doubles(target: str, name: str, signs: int) -> str:
    """Return where products of doubles are others than sums that are rounded behind each product."""
    rows, depth, blocks, _ = form_of(name)
    draw = np.random.default_rng(signs)
    a, b = draw.standard_normal((2, blocks, rows, depth))
    added = draw.standard_normal((blocks, rows, rows))
    lanes = np.arange(LANES)
    pairs = rows * rows * blocks // LANES
    rows_of = [rows // 4 * k + lanes // 16 for k in range(pairs)]
    where = [(lanes % 16 // rows, row, lanes % rows) for row in rows_of]
    registers = {}
    factors = ((FIRST, a[places(a.shape)].T), (SECOND, b[places(b.shape)].T))
    for start, one in (*factors, (RESULT, np.array([added[at] for at in where]))):
        words = [np.ascontiguousarray(column).view(np.uint32).reshape(LANES, 2) for column in one]
        registers |= {start + 2 * k + half: word[:, half].copy() for k, word in enumerate(words) for half in (0, 1)}
    fields = {"src0": 256 + FIRST, "src1": 256 + SECOND, "src2": 256 + RESULT, "blgp": signs}
    after = executed(target, encoded(target, "VOP3P_MFMA", name, vdst=RESULT, **fields), registers)
    of_a, of_b, of_sum = (-1 if signs >> place & 1 else 1 for place in range(3))
    wanted = added * of_sum
    for at, k in itertools.product(np.ndindex(*wanted.shape), range(depth)):
        block, row, column = at
        product = Fraction(a[block, row, k]) * Fraction(b[block, column, k]) * of_a * of_b
        wanted[at] = float(product + Fraction(wanted[at]))
    got = np.array([after[RESULT + 2 * k : RESULT + 2 * k + 2].T.copy().view(np.float64).ravel() for k in range(pairs)])
    expected = np.array([wanted[at] for at in where])
    return first(got != expected, got.ravel(), expected.ravel())


def blocks() -> Iterator[tuple[str, str, str]]:
    """Yield each form, a target that has it, and what is wrong with it first."""
    for kind, shape in itertools.product(DEPTHS, SHAPES):
        name = f"v_mfma_{'i' if kind == 'i8' else 'f'}32_{shape.format(DEPTHS[kind])}_{kind}"
        yield name, "gfx90a", multiplied("gfx90a", name)
    for name in ROUNDED:
        yield name, "gfx942", multiplied("gfx942", name)
    for name, target in itertools.product(DOUBLES, ("gfx90a", "gfx942")):
        for signs in range(8 if target == "gfx942" else 1):
            yield f"{name} {signs}", target, of_doubles(target, name, signs)


def patterns() -> Iterator[tuple[str, str, str]]:
    """Yield products whose factors are those of other blocks and lanes."""
    for kind, shape, blgp in itertools.product(("f32", "i8"), SHAPES, range(8)):
        name = f"v_mfma_{'i' if kind == 'i8' else 'f'}32_{shape.format(DEPTHS[kind])}_{kind}"
        cbsz = blgp % form_of(name)[2].bit_length()
        abid = blgp * 5 % (1 << cbsz)
        yield f"{name} {cbsz} {abid} {blgp}", "gfx942", multiplied("gfx942", name, cbsz, abid, blgp)
    for name, blgp in itertools.product(SINGLE, range(1, 8)):
        yield f"{name} {blgp}", "gfx942", multiplied("gfx942", name, blgp=blgp)
    for target, name, fields in REFUSED:
        registers = {"vdst": RESULT, "src0": 256 + FIRST, "src1": 256 + SECOND, "src2": 256 + RESULT}
        try:
            executed(target, encoded(target, "VOP3P_MFMA", name, **registers, **fields), {})
            wrong = "not refused"
        except UnknownInstructionError:
            wrong = ""
        yield f"{name} refused {fields}", target, wrong
