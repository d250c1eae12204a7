"""Opcodes that only gfx1250 has, against NumPy: sums of 64 bits, tables of bits, pairs of fp32, and two at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from gfx_execute import RESULT, USUAL, differ, encoded, executed, first

TARGET, LANES = "gfx1250", 32
PLACES = (0, 8, 16)  # of the sources
BFLOAT = ml_dtypes.bfloat16


def words_of(values: Any) -> list[Any]:
    """Return the registers of numbers, one number in each lane or several in a row of it."""
    rows = np.ascontiguousarray(values.reshape(LANES, -1))
    if rows.itemsize < 4 and rows.shape[1] == 1:
        return [rows[:, 0].view(np.uint16).astype(np.uint32) | 0x5A5A0000]
    return list(rows.view(np.uint32).T.copy())


def drawn(kind: Any, count: int, draw: Any) -> Any:
    """Return numbers of a type for each lane, with special ones in the first lanes."""
    shape = (LANES, count)
    if np.dtype(kind).kind in "iu":
        values = draw.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)
        values[0], values[1, :], values[2] = 0, -1 if np.dtype(kind).kind == "i" else np.iinfo(kind).max, 1
        return values
    values = (draw.standard_normal(shape) * 10.0 ** draw.integers(-3, 4, shape)).astype(np.float32).astype(kind)
    values[0], values[1], values[2], values[3] = 0, np.inf, -np.inf, np.nan
    return values


def compared(
    encoding: str, name: str, kinds: Sequence[Any], right: Callable[..., Any], counts: Sequence[int] = (), **fields: int
) -> str:
    """Execute an opcode, and return where its result is another than NumPy's."""
    draw = np.random.default_rng(len(name))
    given = [drawn(kind, count, draw) for kind, count in zip(kinds, counts or (1,) * len(kinds), strict=True)]
    registers = {place + k: word for place, values in zip(PLACES, given, strict=False)
                 for k, word in enumerate(words_of(values))}  # fmt: skip
    with np.errstate(all="ignore"):
        wanted = right(*given)
    is_short = encoding in ("VOP1", "VOP2")
    places = {"src0": 256} | ({"vsrc1": PLACES[1]} if is_short else {"src1": 256 + PLACES[1], "src2": 256 + PLACES[2]})
    code = encoded(TARGET, encoding, name, vdst=RESULT, **(places | fields))
    after = executed(TARGET, code, registers)
    size = wanted.itemsize * wanted.size // LANES
    got = np.ascontiguousarray(after[RESULT : RESULT + max(1, size // 4)].T).view(wanted.dtype).reshape(LANES, -1)
    got = got[:, : wanted.size // LANES]
    return first(differ(got, wanted.reshape(got.shape)), got, wanted)


def halves_of(values: Any) -> tuple[Any, Any]:
    return values[:, 0], values[:, 1]


def together(*columns: Any) -> Any:
    return np.stack(columns, 1)


def bits_of(table: int) -> Callable[..., Any]:
    """Return the function of three bits whose table has a bit for each case."""

    def result(a: Any, b: Any, c: Any) -> Any:
        cases = [(a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c) for k in range(8) if table >> k & 1]
        return np.bitwise_or.reduce(cases) if cases else np.zeros_like(a)

    return result


def fused(a: Any, b: Any, c: Any) -> Any:
    """Return a product and a sum with one rounding: those of fp32 are exact in long doubles but for a rounding."""
    return (a.astype(np.longdouble) * b + c).astype(a.dtype)


U32, U64, I64, F32, F64, F16 = np.uint32, np.uint64, np.int64, np.float32, np.float64, np.float16
LONG: Mapping[str, tuple[Sequence[Any], Callable[..., Any]]] = {
    "v_add_nc_u64": ((U64, U64), lambda a, b: a + b),
    "v_sub_nc_u64": ((U64, U64), lambda a, b: a - b),
    "v_mul_u64": ((U64, U64), lambda a, b: a * b),
    "v_min_u64": ((U64, U64), np.minimum),
    "v_max_u64": ((U64, U64), np.maximum),
    "v_min_i64": ((I64, I64), np.minimum),
    "v_max_i64": ((I64, I64), np.maximum),
    "v_mad_nc_u64_u32": ((U32, U32, U64), lambda a, b, c: a.astype(U64) * b + c),
    "v_mad_nc_i64_i32": ((np.int32, np.int32, I64), lambda a, b, c: a.astype(I64) * b + c),
    "v_mad_u32": ((U32, U32, U32), lambda a, b, c: a * b + c),
    "v_lshl_add_u64": ((U64, U32, U64), lambda a, b, c: (a << (b & 7).astype(U64)) + c),
    "v_mov_b64": ((U64,), lambda a: a),
    "v_cvt_pk_f16_f32": ((F32, F32), lambda a, b: together(a[:, 0], b[:, 0]).astype(F16)),
    "v_cvt_pk_bf16_f32": ((F32, F32), lambda a, b: together(a[:, 0], b[:, 0]).astype(BFLOAT)),
    "v_cvt_f32_bf16": ((BFLOAT,), lambda a: a.astype(F32)),
}
SHORT = ("v_add_nc_u64", "v_sub_nc_u64", "v_mul_u64")


def of_pairs(name: str, count: int, right: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """Yield pairs of fp32: as they lie, and with halves that op_sel exchanges and signs that are turned."""
    for opsel, opsel_hi, neg, neg_hi in ((0, 7, 0, 0), (5, 2, 0, 0), (3, 4, 2, 1)):

        def both(*values: Any, low: Any = (opsel, neg), high: Any = (opsel_hi, neg_hi)) -> Any:
            made = []
            for choice, signs in (low, high):
                taken = [one[:, choice >> place & 1] * F32(-1 if signs >> place & 1 else 1)
                         for place, one in enumerate(values)]  # fmt: skip
                made.append(right(*taken))
            return together(*made)

        fields = {"opsel": opsel, "opsel_hi": opsel_hi & 3, "opsel_hi2": opsel_hi >> 2, "neg": neg, "neg_hi": neg_hi}
        yield f"{name} {opsel} {opsel_hi}", compared("VOP3P", name, (F32,) * count, both, (2,) * count, **fields)


def of_three_halves() -> Iterator[tuple[str, str]]:
    choose = {"max3_num": np.fmax, "min3_num": np.fmin, "maximum3": np.maximum, "minimum3": np.minimum}
    for kind, choice in choose.items():
        name = f"v_pk_{kind}_f16"
        right = lambda a, b, c, choice=choice: choice(choice(a, b), c)  # noqa: E731
        yield name, compared("VOP3P", name, (F16,) * 3, right, (2,) * 3, opsel_hi=3, opsel_hi2=1)


def of_constants() -> Iterator[tuple[str, str]]:
    """Yield products of doubles with a constant of 64 bits behind the instruction, and a constant as a source."""
    constant = 1.7e-5
    literal = int(np.float64(constant).view(np.uint64))
    for name, right in (
        ("v_fmaak_f64", lambda a, b: fused(a, b, np.float64(constant))),
        ("v_fmamk_f64", lambda a, b: fused(a, np.float64(constant) + 0 * b, b)),
    ):
        draw = np.random.default_rng(5)
        a, b = (draw.standard_normal((LANES, 1)) for _ in range(2))
        registers = dict(enumerate(words_of(a))) | {8 + k: word for k, word in enumerate(words_of(b))}
        short = encoded(TARGET, "VOP2", name, vdst=RESULT, src0=256, vsrc1=8)[:4]
        after = executed(TARGET, (short + literal.to_bytes(8, "little")).ljust(16, b"\0"), registers)
        got = np.ascontiguousarray(after[RESULT : RESULT + 2].T).view(np.float64)
        wanted = right(a, b)
        yield name, first(np.abs(got - wanted) > np.abs(wanted) * 1e-15, got, wanted)
    for name, opcode, value in (("v_mov_b64", 254, 0x8123456789ABCDEF), ("v_mov_b64", 255, 0x89ABCDEF)):
        short = encoded(TARGET, "VOP1", name, vdst=RESULT, src0=opcode)[:4]
        after = executed(TARGET, (short + value.to_bytes(8, "little")).ljust(16, b"\0"), {})
        got = int(after[RESULT, 0]) | int(after[RESULT + 1, 0]) << 32
        yield f"{name} {opcode}", "" if got == value else hex(got)


def of_eight() -> Iterator[tuple[str, str]]:
    """Yield eight numbers that become bytes, divided by the power of two of a scale."""
    kinds = {"fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2}
    for small, other, mode in (
        (s, o, m) for s in kinds for o in ("f32", "f16", "bf16") for m in (USUAL, USUAL | 1 << 23)
    ):
        kind = {"f32": F32, "f16": F16, "bf16": BFLOAT}[other]
        values = drawn(kind, 8, np.random.default_rng(7))
        scale = np.full((LANES, 1), 6.0, F32)  # of which 4 counts
        registers = dict(enumerate(words_of(values))) | {8: words_of(scale)[0]}
        name = f"v_cvt_scalef32_pk8_{small}_{other}"
        after = executed(TARGET, encoded(TARGET, "VOP3", name, vdst=RESULT, src0=256, src1=264), registers, mode)
        got = np.ascontiguousarray(after[RESULT : RESULT + 2].T).view(kinds[small])
        with np.errstate(all="ignore"):
            exact, most = values.astype(F32) / 4, float(ml_dtypes.finfo(kinds[small]).max)
            wanted = (np.clip(exact, -most, most) if mode != USUAL else exact).astype(kinds[small])
        yield f"{name} {mode:#x}", first(differ(got, wanted), values.ravel(), got.ravel(), wanted.ravel())


def of_two() -> Iterator[tuple[str, str]]:
    """Yield two instructions at once in their longer form: each reads before the other one writes."""
    a, b, c, d = (np.random.default_rng(k).integers(0, 2**32, LANES, np.uint32) for k in range(4))
    swapped = 8 << 18 | 8 << 12 | 0xCF << 24 | 256 + 21 | (256 + 20) << 32 | 20 << 64 | 21 << 88
    after = executed(TARGET, swapped.to_bytes(16, "little"), {20: a, 21: b})
    yield "v_dual_mov_b32 both", first((after[20] != b) | (after[21] != a), after[20], after[21])
    # a - b, and what the table 0x14 makes of c and d: bits that differ
    two = (
        20 << 18 | 18 << 12 | 0xCF << 24 | 256 | (256 + 2) << 32 | 1 << 48 | 20 << 64 | 3 << 72 | 0x14 << 80 | 23 << 88
    )
    after = executed(TARGET, two.to_bytes(16, "little"), {0: a, 1: b, 2: c, 3: d})
    yield "v_dual_sub_nc_u32 bitop2", first((after[20] != a - b) | (after[23] != c ^ d), after[20], after[23])
    # a scalar chooses, and a product and a sum whose first factor is turned
    x, y, z = (one.astype(F32) for one in (a % 100, b % 100, c % 100))
    numbers = dict(enumerate(one.view(np.uint32) for one in (x, y, z)))
    two = 9 << 18 | 19 << 12 | 0xCF << 24 | 256 | 256 << 32 | 1 << 44 | 1 << 48 | 8 << 56 | 20 << 64 | 1 << 72
    two |= 2 << 80 | 23 << 88
    after = executed(TARGET, two.to_bytes(16, "little"), numbers, scalars={8: 0x0F0F1234})
    chosen = np.where(0x0F0F1234 >> np.arange(LANES) & 1, y, x)
    yield (
        "v_dual_cndmask_b32 fma",
        first((after[20].view(F32) != chosen) | (after[23].view(F32) != -x * y + z), after[20], after[23]),
    )
    double = np.random.default_rng(9).standard_normal((2, LANES, 1))
    registers = {
        place + k: word for place, one in zip((4, 6), double, strict=True) for k, word in enumerate(words_of(one))
    }
    two = 33 << 18 | 8 << 12 | 0xCF << 24 | 260 | (256 + 21) << 32 | 6 << 48 | 20 << 64 | 23 << 88
    after = executed(TARGET, two.to_bytes(16, "little"), registers | {21: a})
    got = np.ascontiguousarray(after[20:22].T).view(np.float64)
    yield "v_dual_add_f64 mov", first((got != double.sum(0)).ravel() | (after[23] != a), got.ravel(), after[23])


def of_mixed() -> Iterator[tuple[str, str]]:
    """Yield products and sums of fp32 and of halves in bf16, whose signs are turned or left out."""
    draw = np.random.default_rng(11)
    a, b = (draw.standard_normal((LANES, 2)).astype(F32).astype(BFLOAT) for _ in range(2))
    whole = draw.standard_normal((LANES, 1)).astype(F32)
    given = {
        0: words_of(a)[0],
        8: words_of(b)[0],
        16: words_of(whole)[0],
        RESULT: np.full(LANES, 0x9234D678, np.uint32),
    }
    exact = -np.abs(a[:, 1].astype(np.float64)) * b[:, 0].astype(np.float64) + whole[:, 0]
    sums = exact.astype(F32)
    fields = {"opsel": 1, "opsel_hi": 3, "neg": 1, "neg_hi": 1, "src0": 256, "src1": 264, "src2": 272, "vdst": RESULT}
    for name, wanted in (
        ("v_fma_mix_f32_bf16", sums.view(np.uint32)),
        ("v_fma_mixlo_bf16", sums.astype(BFLOAT).view(np.uint16) | np.uint32(0x92340000)),
        ("v_fma_mixhi_bf16", sums.astype(BFLOAT).view(np.uint16).astype(np.uint32) << 16 | 0xD678),
    ):
        got = executed(TARGET, encoded(TARGET, "VOP3P", name, **fields), given)[RESULT]
        yield name, first(got != wanted, got, wanted)


def numbers_of_gfx1250() -> Iterator[tuple[str, str, str]]:
    """Yield the name of each form, the target, and where its numbers are wrong."""
    for name, (kinds, right) in LONG.items():
        yield name, TARGET, compared("VOP3", name, kinds, right)
        if name in SHORT:
            yield f"{name} e32", TARGET, compared("VOP2", name, kinds, right)
    for table in (0x14, 0x40, 0xE8, 0xFE, 0x01, 0xCA, 0x2C):
        fields = {"abs": table >> 3 & 7, "omod": table >> 6, "neg": table & 7}
        for name, kind in (("v_bitop3_b32", U32), ("v_bitop3_b16", np.uint16)):
            yield f"{name} {table:#x}", TARGET, compared("VOP3", name, (kind,) * 3, bits_of(table), **fields)
    for program in (
        *(of_pairs("v_pk_add_f32", 2, lambda a, b: a + b), of_pairs("v_pk_mul_f32", 2, lambda a, b: a * b)),
        *(of_pairs("v_pk_fma_f32", 3, fused), of_three_halves(), of_constants(), of_eight(), of_two(), of_mixed()),
    ):
        yield from ((name, TARGET, wrong) for name, wrong in program)
