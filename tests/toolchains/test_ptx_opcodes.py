"""Each opcode of PTX gives what NumPy computes in wider numbers, for random and special values."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from interpreters import unoptimized

from gpu_emulators.nvidia import EmulatorError, Memory, Program, UnknownInstructionError
from gpu_emulators.nvidia.launch import library

pytestmark = pytest.mark.slow  # to compile the interpreter takes five CPU-seconds

COUNT = 1024
_RANDOM = np.random.default_rng(1)
_SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -3e-39, 3.4e38, 1.0, -1.5, 65504.0, 2.0**-24, 0.5, 1e-30]
_NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16}
_HEAD = ".version 8.5\n.target sm_90\n.address_size 64\n"
_REGISTERS = {16: "%h", 32: "%r", 64: "%d"}


@pytest.fixture(autouse=True, scope="module")
def cache():
    """Keep the compiled interpreter."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in unoptimized().items():
            patch.setenv(name, value)
        library()
        yield


@pytest.fixture(autouse=True)
def special_values():
    """Let NumPy compute with infinities and NaN."""
    with np.errstate(all="ignore"):
        yield


def type_of(kind: str) -> Any:
    names = {"b": "u", "s": "i"}
    return _NUMPY.get(kind) or np.dtype(f"{names.get(kind[0], kind[0])}{int(kind[1:]) // 8}")


def values(kind: str) -> Any:
    """Return random and special values of a type: all pairs of the special ones are in two arrays of them."""
    dtype = np.dtype(type_of(kind))
    bits = _RANDOM.integers(0, 256, COUNT * dtype.itemsize, np.uint8).view(dtype)
    if kind in _NUMPY:
        bits[::2] = (_RANDOM.standard_normal(COUNT // 2) * 4).astype(dtype)
        return bits, np.array(_SPECIAL).astype(dtype)
    info = np.iinfo(dtype)
    edges = [0, 1, 2, 7, 31, 32, 63, info.max, info.min, info.max - 1]
    return bits, np.array([*edges, info.max if info.min == 0 else -1], dtype)


def operands(kinds: list[str]) -> list[Any]:
    drawn = [values(kind) for kind in kinds]
    size = len(drawn[0][1])
    for place, (bits, special) in enumerate(drawn):
        pairs = np.resize(np.tile(special, 4) if place % 2 else np.repeat(special, size)[: size * size], size * size)
        bits[: min(size * size, 256)] = np.resize(pairs, 256)[: min(size * size, 256)]
    return [bits for bits, _ in drawn]


def run(line: str, result: str, kinds: list[str], arrays: list[Any]) -> Any:
    """Run one instruction, whose operands are {0}, {1}, … and whose result is {to}, in each thread."""
    sizes = [int(kind.strip("bfsu")) for kind in (result, *kinds)]
    names = [f"{_REGISTERS[max(size, 16)]}{place + 1}" for place, size in enumerate(sizes)]
    text = [f"{_HEAD}.visible .entry k(", ",\n".join(f".param .u64 p{n}" for n in range(len(sizes))), ")\n{"]
    text += [".reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<4>; .reg .b64 %a<12>; .reg .b32 %t<5>;"]
    text += ["mov.u32 %t1, %tid.x; mov.u32 %t2, %ctaid.x; mad.lo.s32 %t3, %t2, 128, %t1;"]
    for place, size in enumerate(sizes):
        text += [f"ld.param.u64 %a{place}, [p{place}]; mad.wide.u32 %a{place}, %t3, {size // 8}, %a{place};"]
        text += [f"ld.global.b{size} {names[place]}, [%a{place}];"] if place else []
    text += [f"{line.format(*names[1:], to=names[0])};", f"st.global.b{sizes[0]} [%a0], {names[0]};", "ret;\n}"]
    out = np.zeros(COUNT, type_of(result))
    memory = [Memory.of(f"m{place}", array) for place, array in enumerate([out, *arrays])]
    ran = Program("\n".join(text)).launch((COUNT // 128,), 128, memory)
    assert not ran.findings, [str(one) for one in ran.findings]
    return out


def same(result: Any, right: Any) -> Any:
    """Return where two arrays have the same bits, or both NaN."""
    bits = np.dtype(f"u{result.dtype.itemsize}")
    equal = result.view(bits) == right.view(bits)
    if result.dtype.kind in "fV" or result.dtype == ml_dtypes.bfloat16:
        equal |= np.isnan(result.astype(np.float64)) & np.isnan(right.astype(np.float64))
    return equal


def wide(*arrays: Any) -> list[Any]:
    return [array.astype(object) if array.dtype.kind in "iu" else array.astype(np.longdouble) for array in arrays]


def wrapped(value: Any, kind: str) -> Any:
    """Return whole numbers of any size as numbers of a type."""
    dtype = np.dtype(type_of(kind))
    mask = (1 << 8 * dtype.itemsize) - 1
    return np.array([int(one) & mask for one in value], np.dtype(f"u{dtype.itemsize}")).view(dtype)


def quotient(a: int, b: int) -> int:
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_WHOLE: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "mad.lo": lambda a, b, c: a * b + c,
    "min": min,
    "max": max,
    "div": quotient,
    "rem": lambda a, b: a if b == 0 else a - quotient(a, b) * b,
}


@pytest.mark.parametrize("kind", ["s16", "u16", "s32", "u32", "s64", "u64"])
def test_integers(kind):
    bits = int(kind[1:])
    for name, meaning in _WHOLE.items():
        count = meaning.__code__.co_argcount if hasattr(meaning, "__code__") else 2
        arrays = operands([kind] * count)
        line = f"{name}.{kind} {{to}}, " + ", ".join(f"{{{n}}}" for n in range(count))
        right = wrapped([meaning(*map(int, row)) for row in zip(*arrays, strict=True)], kind)
        assert same(run(line, kind, [kind] * count, arrays), right).all(), name
    a, b = operands([kind] * 2)
    high = wrapped([int(x) * int(y) >> bits for x, y in zip(a, b, strict=True)], kind)
    assert same(run(f"mul.hi.{kind} {{to}}, {{0}}, {{1}}", kind, [kind] * 2, [a, b]), high).all()
    by = _RANDOM.integers(0, 80, COUNT, np.uint32)
    right = wrapped([int(x) >> min(int(n), 200) for x, n in zip(a, by, strict=True)], kind)
    assert same(run(f"shr.{kind} {{to}}, {{0}}, {{1}}", kind, [kind, "u32"], [a, by]), right).all()
    if bits < 64:
        longer = f"{kind[0]}{2 * bits}"
        right = wrapped([int(x) * int(y) for x, y in zip(a, b, strict=True)], longer)
        assert same(run(f"mul.wide.{kind} {{to}}, {{0}}, {{1}}", longer, [kind] * 2, [a, b]), right).all()


def test_bits():
    a, b, c, d = operands(["b32"] * 4)
    rows = list(zip(*(map(int, one) for one in (a, b, c, d)), strict=True))
    table: dict[str, Callable[[int, int, int, int], int]] = {
        "and.b32 {to}, {0}, {1}": lambda a, b, c, d: a & b,
        "xor.b32 {to}, {0}, {1}": lambda a, b, c, d: a ^ b,
        "not.b32 {to}, {0}": lambda a, b, c, d: ~a,
        "shl.b32 {to}, {0}, {1}": lambda a, b, c, d: a << b if b < 32 else 0,
        "popc.b32 {to}, {0}": lambda a, b, c, d: a.bit_count(),
        "clz.b32 {to}, {0}": lambda a, b, c, d: 32 - a.bit_length(),
        "brev.b32 {to}, {0}": lambda a, b, c, d: int(f"{a:032b}"[::-1], 2),
        "bfe.u32 {to}, {0}, 5, 9": lambda a, b, c, d: a >> 5 & 511,
        "bfe.s32 {to}, {0}, 27, 9": lambda a, b, c, d: (a ^ 1 << 31) - (1 << 31) >> 27,
        "bfi.b32 {to}, {0}, {1}, 4, 8": lambda a, b, c, d: b & ~0xFF0 | (a & 255) << 4,
        "shf.l.wrap.b32 {to}, {0}, {1}, {2}": lambda a, b, c, d: (b << 32 | a) << (c & 31) >> 32,
        "shf.r.clamp.b32 {to}, {0}, {1}, {2}": lambda a, b, c, d: (b << 32 | a) >> min(c, 32),
        "lop3.b32 {to}, {0}, {1}, {2}, 0x96": lambda a, b, c, d: a ^ b ^ c,
        "lop3.b32 {to}, {0}, {1}, {2}, 0xca": lambda a, b, c, d: a & b | ~a & c,
        "prmt.b32 {to}, {0}, {1}, 0x7531": lambda a, b, c, d: (
            a >> 8 & 255 | (a >> 24) << 8 | (b >> 8 & 255) << 16 | b >> 24 << 24
        ),
        "prmt.b32 {to}, {0}, {1}, 0x8888": lambda a, b, c, d: 0xFFFFFFFF if a & 0x80 else 0,
    }
    for line, meaning in table.items():
        count = 1 + max(n for n in range(4) if f"{{{n}}}" in line)
        right = wrapped([meaning(*row) for row in rows], "b32")
        assert same(run(line, "b32", ["b32"] * count, [a, b, c, d][:count]), right).all(), line


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16"])
def test_sums_and_products_are_rounded_once(kind):
    a, b = operands([kind] * 2)
    x, y = (one.astype(np.float64 if kind != "f64" else np.longdouble) for one in (a, b))
    for name, exact in (("add", x + y), ("sub", x - y), ("mul", x * y)):
        right = rounded(exact, kind)
        if kind == "f64":
            right = {"add": a + b, "sub": a - b, "mul": a * b}[name]
        got = run(f"{name}.rn.{kind} {{to}}, {{0}}, {{1}}", kind, [kind] * 2, [a, b])
        assert same(got, right).all(), name


def rounded(exact: Any, kind: str) -> Any:
    return exact.astype(np.float32).astype(_NUMPY[kind]) if kind == "bf16" else exact.astype(_NUMPY[kind])


def surplus(name: str, result: Fraction, a: Fraction, b: Fraction, c: Fraction) -> Fraction:
    """Return a number with the sign of the difference between a result and the exact one."""
    if name == "sqrt":
        return result * result - a if result > 0 else result - a
    if name in ("div", "rcp"):
        above, below = (a, b) if name == "div" else (Fraction(1), a)
        return (result * below - above) * (1 if below > 0 else -1)
    if name in ("add", "sub"):
        return result - (a + b if name == "add" else a - b)
    return result - (a * b + (c if name == "fma" else 0))


def is_rounded(name: str, mode: str, result: Any, row: list[Fraction]) -> bool:
    """Return whether no number lies between the result and the exact one in the direction that the mode asks for."""
    down, here, up = (
        Fraction(float(one))
        for one in (np.nextafter(result, np.float32(-3e38)), result, np.nextafter(result, np.float32(3e38)))
    )
    if mode == "rn":
        return surplus(name, (down + here) / 2, *row) <= 0 <= surplus(name, (here + up) / 2, *row)
    if mode == "rz":
        mode = "rm" if surplus(name, Fraction(0), *row) <= 0 else "rp"
    if mode == "rm":
        return surplus(name, here, *row) <= 0 < surplus(name, up, *row)
    return surplus(name, down, *row) < 0 <= surplus(name, here, *row)


@pytest.mark.parametrize("name", ["add", "sub", "fma", "mul", "div", "rcp", "sqrt"])
def test_sums_quotients_and_roots_are_rounded_in_each_direction(name):
    count = {"fma": 3, "rcp": 1, "sqrt": 1}.get(name, 2)
    arrays = operands(["f32"] * 3)
    for mode in ("rn", "rz", "rm", "rp"):
        line = f"{name}.{mode}.f32 {{to}}, " + ", ".join(f"{{{n}}}" for n in range(count))
        got, checked = run(line, "f32", ["f32"] * count, arrays[:count]), 0
        for result, *row in zip(got, *arrays, strict=True):
            divides = name in ("div", "rcp") and row[name == "div"] == 0
            is_root = name == "sqrt" and not row[0] > 0
            if np.isfinite([result, *row]).all() and abs(result) < 3e38 and not divides and not is_root:
                assert is_rounded(name, mode, result, [Fraction(float(one)) for one in row]), (mode, result, row)
                checked += 1
        assert checked > COUNT // 4


def test_approximations_are_the_nearest_numbers():
    [a] = operands(["f32"])
    x = a.astype(np.longdouble)
    table = {"ex2": np.exp2(x), "lg2": np.log2(x), "rsqrt": 1 / np.sqrt(x)}
    flushed = np.where(np.abs(a) < 2.0**-126, np.copysign(np.float32(0), a), a).astype(np.longdouble)
    for name, exact in table.items():
        got = run(f"{name}.approx.f32 {{to}}, {{0}}", "f32", ["f32"], [a])
        right = exact.astype(np.float32)
        near = np.abs(got - right) <= np.spacing(np.abs(right))
        assert (near | same(got, right)).all(), name
    got = run("ex2.approx.ftz.f32 {to}, {0}", "f32", ["f32"], [a])
    right = np.exp2(flushed).astype(np.float32)
    right[np.abs(right) < 2.0**-126] = 0
    assert (same(got, right) | (np.abs(got - right) <= np.spacing(np.abs(right)))).all()


@pytest.mark.parametrize(("name", "exact"), [("rcp", lambda x: 1 / x), ("rsqrt", lambda x: 1 / np.sqrt(x))])
def test_a_first_approximation_in_fp64_has_the_upper_bits_of_the_number(name, exact):
    [a] = operands(["f64"])
    got, upper = run(f"{name}.approx.ftz.f64 {{to}}, {{0}}", "f64", ["f64"], [a]), a.view(np.uint64) >> 32 << 32
    kept = np.where(np.isnan(a), a, upper.view(np.float64))
    right = exact(np.where(np.abs(kept) < 2.0**-1022, np.copysign(0.0, kept), kept))
    special = ~np.isfinite(right) | (np.abs(right) < 2.0**-1022)
    assert same(got, np.where(np.abs(right) < 2.0**-1022, np.copysign(0.0, right), right))[special].all()
    assert (np.abs(got / right - 1)[~special] < 2.0**-19).all()
    assert not (got.view(np.uint64)[~special] & 0xFFFFFFFF).any()


def test_the_larger_and_the_smaller_number_and_comparisons_know_nan():
    a, b = operands(["f32"] * 2)
    zeros = (a == 0) & (b == 0)
    for name, plain, strict in (("max", np.fmax, np.maximum), ("min", np.fmin, np.minimum)):
        got = run(f"{name}.f32 {{to}}, {{0}}, {{1}}", "f32", ["f32"] * 2, [a, b])
        assert (same(got, plain(a, b)) | zeros).all()
        got = run(f"{name}.NaN.f32 {{to}}, {{0}}, {{1}}", "f32", ["f32"] * 2, [a, b])
        assert (same(got, strict(a, b)) | zeros).all()
        sign = np.where(np.signbit(a) != np.signbit(b), np.float32(-1), np.float32(1))
        got = run(f"{name}.xorsign.abs.f32 {{to}}, {{0}}, {{1}}", "f32", ["f32"] * 2, [a, b])
        assert same(got, plain(abs(a), abs(b)) * sign).all()
    unordered = np.isnan(a) | np.isnan(b)
    for name, right in {
        "eq": a == b,
        "ne": (a != b) & ~unordered,
        "lt": a < b,
        "ge": a >= b,
        "neu": a != b,
        "ltu": (a < b) | unordered,
        "num": ~unordered,
        "nan": unordered,
    }.items():
        line = f"setp.{name}.f32 %p1, {{0}}, {{1}}; selp.u32 {{to}}, 1, 0, %p1"
        assert (run(line, "u32", ["f32"] * 2, [a, b]) == right).all(), name
        line = f"setp.{name}.or.f32 %p1|%p2, {{0}}, {{1}}, !%p3; selp.u32 {{to}}, 1, 0, %p2"
        line = f"setp.eq.u32 %p3, 0, 0; {line}"
        assert (run(line, "u32", ["f32"] * 2, [a, b]) == ~right).all(), name


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_a_comparison_of_pairs_has_a_predicate_for_each_half(kind):
    low, high, other, another = operands([kind] * 4)
    a, b = (x.view(np.uint16) | y.view(np.uint16).astype(np.uint32) << 16 for x, y in ((low, high), (other, another)))
    for name, compare in {"gt": np.greater, "eq": np.equal, "neu": np.not_equal}.items():
        for place, (x, y) in enumerate(((low, other), (high, another)), 1):
            line = f"setp.{name}.{kind}x2 %p1|%p2, {{0}}, {{1}}; selp.u32 {{to}}, 1, 0, %p{place}"
            right = compare(x.astype(np.float32), y.astype(np.float32))
            assert (run(line, "u32", ["u32"] * 2, [a, b]) == right).all(), (name, place)
    line = f"setp.gt.or.{kind}x2 %p1|%p2, {{0}}, {{1}}, %p3; selp.u32 {{to}}, 1, 0, %p2"
    assert (run(f"setp.eq.u32 %p3, 0, 0; {line}", "u32", ["u32"] * 2, [a, b]) == 1).all()


def test_conversions_round_and_saturate():
    f32, f16, bf16, f64 = (operands([kind])[0] for kind in ("f32", "f16", "bf16", "f64"))
    i32, i64 = operands(["s32"])[0], operands(["s64"])[0]
    exact = [
        ("cvt.rn.f16.f32", "f16", "f32", f32, f32.astype(np.float16)),
        ("cvt.rn.bf16.f32", "bf16", "f32", f32, f32.astype(ml_dtypes.bfloat16)),
        ("cvt.f32.f16", "f32", "f16", f16, f16.astype(np.float32)),
        ("cvt.f32.bf16", "f32", "bf16", bf16, bf16.astype(np.float32)),
        ("cvt.rn.f32.f64", "f32", "f64", f64, f64.astype(np.float32)),
        ("cvt.f64.f32", "f64", "f32", f32, f32.astype(np.float64)),
        ("cvt.rn.f32.s32", "f32", "s32", i32, i32.astype(np.float32)),
        ("cvt.rn.f32.s64", "f32", "s64", i64, i64.astype(np.float32)),
        ("cvt.rn.f64.s64", "f64", "s64", i64, i64.astype(np.float64)),
        ("cvt.s64.s32", "s64", "s32", i32, i32.astype(np.int64)),
        ("cvt.u16.u32", "u16", "u32", i32.view(np.uint32), i32.astype(np.uint16)),
        ("cvt.rni.f32.f32", "f32", "f32", f32, np.rint(f32)),
        ("cvt.rmi.f32.f32", "f32", "f32", f32, np.floor(f32)),
        ("cvt.rn.f16.s32", "f16", "s32", i32, i32.astype(np.float64).astype(np.float16)),
        ("cvt.sat.f32.f32", "f32", "f32", f32, np.where(np.isnan(f32), 0, np.clip(f32, 0, 1)).astype(np.float32)),
    ]
    for name, to, source, array, right in exact:
        got = run(f"{name} {{to}}, {{0}}", to, [source], [array])
        assert (same(got, right) | ((got == 0) & (right == 0) & (name == "cvt.sat.f32.f32"))).all(), name
    whole = np.where(np.isnan(f32), 0, np.clip(np.trunc(f32.astype(np.float64)), -(2.0**31), 2.0**31 - 1))
    assert (run("cvt.rzi.s32.f32 {to}, {0}", "s32", ["f32"], [f32]) == whole.astype(np.int32)).all()
    small = np.clip(i32, -128, 127).astype(np.int16)
    assert (run("cvt.sat.s8.s32 {to}, {0}", "s16", ["s32"], [i32]) == small).all()
    pairs = run("cvt.rn.bf16x2.f32 {to}, {0}, {1}", "u32", ["f32"] * 2, [f32, f32[::-1].copy()])
    halves = pairs.view(ml_dtypes.bfloat16).reshape(-1, 2)
    assert same(halves[:, 1].copy(), f32.astype(ml_dtypes.bfloat16)).all()
    assert same(halves[:, 0].copy(), f32[::-1].astype(ml_dtypes.bfloat16)).all()
    got = run("cvt.rna.tf32.f32 {to}, {0}", "b32", ["f32"], [f32])
    finite = np.isfinite(f32) & (np.abs(f32) < 3e38)
    assert ((got[finite] & 0x1FFF) == 0).all()
    assert (np.abs(got.view(np.float32) - f32)[finite] <= np.maximum(np.abs(f32[finite]) * 2.0**-11, 1e-41)).all()
    for kind, dtype in (("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2)):
        most = 448 if kind == "e4m3" else 57344
        got = run(f"cvt.rn.satfinite.{kind}x2.f32 {{to}}, {{0}}, {{0}}", "u16", ["f32"], [f32])
        right = np.where(np.isnan(f32), f32, np.clip(f32, -most, most)).astype(dtype).astype(np.float32)
        back = (got & 255).astype(np.uint8).view(dtype).astype(np.float32)
        assert same(back, right).all(), kind


def test_pairs_of_halves():
    a, b, c = (operands(["f16"])[0] for _ in range(3))
    words = [np.repeat(one, 2).view(np.uint32) for one in (a, b, c)]
    right = (a.astype(np.longdouble) * b + c).astype(np.float16)
    got = run("fma.rn.f16x2 {to}, {0}, {1}, {2}", "u32", ["u32"] * 3, words).view(np.float16).reshape(-1, 2)
    for half in range(2):
        assert same(got[:, half].copy(), right).all()


def test_a_statement_behind_a_line_is_not_lost_and_names_of_a_scope_are_its_own():
    text = f"""{_HEAD}.file 1 "/a/k.py"
.visible .entry k(.param .u64 p0)
{{ .reg .b64 %rd<2>; .reg .b32 %r<3>;
  .loc 1 12 3 // k.py:12
  ld.param.u64 %rd1, [p0];
  mov.u32 %r1, 7;
  {{ .reg .b32 %r1; mov.u32 %r1, 8; add.s32 %r2, %r1, 1; }}
  .loc 1 14 3
  add.s32 %r1, %r1, %r2; $L_a: .loc 1 15 3
  st.global.u32 [%rd1+4], %r1; ret;
}}"""
    out = np.zeros(2, np.uint32)
    program = Program(text)
    assert not program.launch((1,), 1, [Memory.of("out", out)]).findings
    assert out.tolist() == [0, 16]
    assert [one.line for one in program.instructions if one.opcode in ("mov.u32", "st.global.u32")] == [
        *["k.py:12"] * 2,
        "k.py:15",
    ]


def test_lanes_that_part_meet_again():
    """A loop runs as often as each lane's number says; behind it all lanes vote together."""
    text = f"""{_HEAD}.visible .entry k(.param .u64 p0)
{{ .reg .b64 %rd<3>; .reg .b32 %r<6>; .reg .pred %p<3>;
  ld.param.u64 %rd1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.u32 %r3, 0;
$loop:
  setp.ge.u32 %p1, %r3, %r1; @%p1 bra $behind;
  add.u32 %r2, %r2, %r3; add.u32 %r3, %r3, 1; bra $loop;
$behind:
  setp.gt.u32 %p2, %r2, 100; vote.sync.ballot.b32 %r4, %p2, -1;
  mad.wide.u32 %rd2, %r1, 8, %rd1; st.global.v2.u32 [%rd2], {{%r2, %r4}}; ret;
}}"""
    out = np.zeros((32, 2), np.uint32)
    assert not Program(text).launch((1,), 32, [Memory.of("out", out)]).findings
    sums = [n * (n - 1) // 2 for n in range(32)]
    assert out[:, 0].tolist() == sums
    assert set(out[:, 1].tolist()) == {sum(1 << n for n, value in enumerate(sums) if value > 100)}


# Code whose lanes part and meet at a barrier, in any order; %r1 is the thread, and %r2 is 0.
_MEETING = {
    "behind what leads there": "bra $first; $both: bar.sync 0; bra $end; $first: @%p1 bra $a; bra $b;"
    " $a: add.u32 %r2, %r2, 1; bra $both; $b: bra $both;",
    "a loop that goes on in the middle": "$loop: add.u32 %r2, %r2, 1; setp.ge.u32 %p2, %r2, 4; @%p2 bra $end;"
    " bar.sync 0; @%p1 bra $loop; xor.b32 %r3, %r1, %r2; bra $loop;",
    "the others have ended": "@%p1 bra $a; bra $end; $a: bar.sync 0;",
    "some end before": "@%p1 bra $a; bra $b; $a: setp.lt.u32 %p2, %r1, 2; @%p2 ret; $b: bar.sync 0;",
    "some end elsewhere": "@%p1 bra $a; bra $b; $gone: ret; $b: bar.sync 0; bra $end;"
    " $a: setp.lt.u32 %p2, %r1, 2; @%p2 bra $gone; bra $b;",
    "two loops, left from the inner one": "$outer: mov.u32 %r3, 0; $inner: add.u32 %r3, %r3, 1;"
    " setp.gt.u32 %p2, %r3, %r1; @%p2 bra $out; setp.lt.u32 %p2, %r3, 3; @%p2 bra $inner;"
    " add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 3;"
    " @%p2 bra $outer; $out: bar.sync 0;",
    "the body before the head": "bra $head; $body: bar.sync 0; @%p1 bra $a; bra $tail; $a: xor.b32 %r3, %r1, %r2;"
    " $tail: add.u32 %r2, %r2, 1; $head: setp.lt.u32 %p2, %r2, 3; @%p2 bra $body;",
    "back to a head that comes next": "bra $head; $odd: @%p1 bra $head; xor.b32 %r3, %r1, %r2; $head:"
    " add.u32 %r2, %r2, 1; bar.sync 0; setp.lt.u32 %p2, %r2, 4; @%p2 bra $more; bra $end; $more: bra $odd;",
}
_PARTED = {
    "in one way": "@%p1 bra $a; bra $b; $a: bar.sync 0; $b: add.u32 %r2, %r2, 1;",
    "in both": "@%p1 bra $a; bar.sync 0; bra $end; $a: bar.sync 0;",
    "as often as the lane says": "$loop: bar.sync 0; add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, %r1; @%p2 bra $loop;",
}


@pytest.mark.parametrize("way", [*_MEETING, *_PARTED])
def test_a_barrier_is_met_by_part_of_a_warp_only_where_no_way_leads_the_others_to_it(way):
    text = f"""{_HEAD}.visible .entry k()
{{ .reg .b32 %r<6>; .reg .pred %p<3>;
  mov.u32 %r1, %tid.x; mov.u32 %r2, 0; setp.lt.u32 %p1, %r1, 9;
  {(_MEETING | _PARTED)[way]} $end: ret; }}"""
    found = {one.kind for one in Program(text).launch((1,), 32, [], limit=1000).findings}
    assert found - {"deadlock"} == (set() if way in _MEETING else {"divergent"})


def test_shuffles_follow_the_text_of_the_isa():
    lines = {
        "shfl.sync.bfly.b32 {to}, {0}, 4, 0x1f, -1": lambda n: n ^ 4,
        "shfl.sync.bfly.b32 {to}, {0}, 16, 0x1f, -1": lambda n: n ^ 16,
        "shfl.sync.up.b32 {to}, {0}, 17, 0, -1": lambda n: n - 17 if n >= 17 else n,
        "shfl.sync.up.b32 %r8|%p1, {0}, 5, 0, -1; selp.u32 {to}, 1, 0, %p1": lambda n: n >= 5,
        "shfl.sync.down.b32 %r8|%p1, {0}, 5, 0x1f, -1; selp.u32 {to}, 1, 0, %p1": lambda n: n < 27,
        "shfl.sync.up.b32 {to}, {0}, 3, 0, -1": lambda n: n - 3 if n >= 3 else n,
        "shfl.sync.down.b32 {to}, {0}, 3, 0x1f, -1": lambda n: n + 3 if n < 29 else n,
        "shfl.sync.idx.b32 {to}, {0}, 5, 0x181f, -1": lambda n: n // 8 * 8 + 5,
    }
    numbers = np.arange(COUNT, dtype=np.uint32)
    for line, meaning in lines.items():
        right = [("selp" not in line) * (n // 32 * 32) + meaning(n % 32) for n in range(COUNT)]
        assert run(line, "u32", ["u32"], [numbers]).tolist() == right, line
    got = run("redux.sync.max.s32 {to}, {0}, -1", "s32", ["s32"], [(-numbers).view(np.int32)])
    assert got.tolist() == [-(n // 32 * 32) for n in range(COUNT)]


def test_an_mbarrier_orders_a_copy_in_bulk_and_its_reader():
    """The copy's bytes may be read behind the wait alone; the parity of a phase that has not ended keeps a warp."""
    text = f"""{_HEAD}.shared .align 16 .b8 buffer[512]; .shared .align 8 .b64 bar;
.visible .entry k(.param .u64 p0, .param .u64 p1)
{{ .reg .b64 %rd<4>; .reg .b32 %r<6>; .reg .pred %p<3>;
  ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, bar; mov.u32 %r3, buffer;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 mbarrier.init.shared::cta.b64 [%r2], 1;
  bar.sync 0;
  @!%p1 bra $wait;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 512;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd2], 512, [%r2];
$wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
  @!%p2 bra $wait;
  mad.lo.u32 %r4, %r1, 4, %r3; ld.shared.u32 %r5, [%r4];
  mad.wide.u32 %rd3, %r1, 4, %rd1; st.global.u32 [%rd3], %r5; ret;
}}"""
    given, out = np.arange(128, dtype=np.uint32), np.zeros(128, np.uint32)
    memory = [Memory.of("out", out), Memory.of("in", given, writable=False)]
    program = Program(text)
    assert not program.launch((1,), 128, memory).findings
    assert out.tolist() == given.tolist()
    wait = next(one.number for one in program.instructions if one.opcode.startswith("mbarrier.try_wait"))
    assert "no wait" in {one.kind for one in program.without(wait).without(wait + 1).launch((1,), 128, memory).findings}


def test_what_is_wrong_is_told_in_a_sentence():
    with pytest.raises(UnknownInstructionError, match=r"tcgen05\.alloc"):
        Program(f"{_HEAD}.visible .entry k()\n{{ tcgen05.alloc.cta_group::1.sync.aligned.b32 [%r1], 32; ret; }}")
    with pytest.raises(EmulatorError, match="it is not PTX"):
        Program("hello")
    with pytest.raises(EmulatorError, match="no semicolon ends"):
        Program(f"{_HEAD}.visible .entry k()\n{{ ret }}")
    with pytest.raises(EmulatorError, match="k has 1 arguments, and 0 are given"):
        Program(f"{_HEAD}.visible .entry k(.param .u32 a)\n{{ ret; }}").launch((1,), 1, [])
    with pytest.raises(EmulatorError, match="the argument a has 4 bytes, not 8"):
        Program(f"{_HEAD}.visible .entry k(.param .u32 a)\n{{ ret; }}").launch((1,), 1, [struct.pack("<q", 1)])


def places(size: int, bits: int) -> tuple[Callable[..., tuple[int, int]], Callable[..., tuple[int, int]]]:
    """Return where the ISA's text puts element i of a lane in A and in B, for m16n8k(size) of so many bits.

    It names groupID = lane / 4 and threadID = lane % 4, and gives rows and columns for i.
    """
    group = 32 // bits  # elements of a register

    def left(lane: int, i: int) -> tuple[int, int]:
        row = lane // 4 + (8 if i // group % 2 else 0)
        return row, lane % 4 * group + i % group + (size // 2 if i >= 2 * group else 0)

    def right(lane: int, i: int) -> tuple[int, int]:
        return lane % 4 * group + i % group + (size // 2 if i >= group else 0), lane // 4

    return left, right


@pytest.mark.parametrize(
    ("kind", "size", "total"),
    [
        ("bf16", 16, "f32"),
        ("f16", 8, "f32"),
        ("f16", 16, "f16"),
        ("s8", 32, "s32"),
        ("u8", 16, "s32"),
        ("e4m3", 32, "f32"),
    ],
)
def test_products_of_matrices_have_the_layouts_of_the_isa(kind, size, total):
    dtype = {"s8": np.int8, "u8": np.uint8, "e4m3": ml_dtypes.float8_e4m3fn}.get(kind) or _NUMPY[kind]
    low = 0 if kind == "u8" else -8
    a, b = (_RANDOM.integers(low, 8, shape).astype(dtype) for shape in ((16, size), (size, 8)))
    c = _RANDOM.integers(-8, 8, (16, 8)).astype({"s32": np.int32}.get(total) or _NUMPY[total])
    bits = 8 * np.dtype(dtype).itemsize
    of_left, of_right = places(size, bits)
    counts = 16 * size * bits // 1024, 8 * size * bits // 1024, 2 if total == "f16" else 4
    left = np.array([[a[of_left(lane, i)] for i in range(16 * size // 32)] for lane in range(32)], dtype)
    right = np.array([[b[of_right(lane, i)] for i in range(8 * size // 32)] for lane in range(32)], dtype)

    def spread(matrix: Any) -> Any:
        rows = [[(lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2) for i in range(4)] for lane in range(32)]
        return np.array([[matrix[place] for place in row] for row in rows], matrix.dtype)

    words = [np.ascontiguousarray(one).view(np.uint32).reshape(32, -1) for one in (left, right, spread(c))]
    assert tuple(one.shape[1] for one in words) == counts
    names = [[f"%{letter}{n}" for n in range(count)] for letter, count in zip("abc", counts, strict=True)]
    loads = [
        f"ld.global.b32 {name}, [%q{place}+{4 * n}];" for place, row in enumerate(names) for n, name in enumerate(row)
    ]
    vectors = ["{" + ", ".join(row) + "}" for row in names]
    text = [f"{_HEAD}.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3)\n{{"]
    text += [".reg .b32 %a<4>, %b<4>, %c<4>, %t; .reg .b64 %q<4>; mov.u32 %t, %tid.x;"]
    for place, row in enumerate([*names, names[2]]):
        text += [f"ld.param.u64 %q{place}, [p{place}]; mad.wide.u32 %q{place}, %t, {4 * len(row)}, %q{place};"]
    text += [*loads, f"mma.sync.aligned.m16n8k{size}.row.col.{total}.{kind}.{kind}.{total}"]
    text += [f"{vectors[2]}, {vectors[0]}, {vectors[1]}, {vectors[2]};"]
    text += [f"st.global.b32 [%q3+{4 * n}], {name};" for n, name in enumerate(names[2])]
    out = np.zeros((32, counts[2]), np.uint32)
    memory = [Memory.of(f"m{place}", array) for place, array in enumerate([*words, out])]
    assert not Program("\n".join([*text, "ret;\n}"])).launch((1,), 32, memory).findings
    exact = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    assert (out == spread(exact.astype(c.dtype)).view(np.uint32).reshape(32, -1)).all()


_OF_A_WARP = f"""{_HEAD}.visible .entry k(.param .u64 p0, .param .u64 p1)
{{{{ .local .align 16 .b8 kept[16]; .shared .align 4 .b8 part[128]; .shared .align 16 .b8 rows[1024];
  .reg .b64 %rd<8>; .reg .b32 %r<20>; .reg .f32 %f<8>;
  .reg .b16 %h<8>; .reg .pred %p<3>; setp.eq.u32 %p1, 0, 0;
  ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; mov.u32 %r1, %tid.x;
  mad.wide.u32 %rd3, %r1, 16, %rd1; mad.wide.u32 %rd4, %r1, 16, %rd2;
  {{}} ret;
}}}}"""


def of_a_warp(lines: str, given: Any, out: Any) -> list[str]:
    """Run lines with addresses of 16 bytes for each thread, and return the kinds of what is found."""
    memory = [Memory.of("out", out), Memory.of("in", given, writable=False)]
    return [one.kind for one in Program(_OF_A_WARP.format(lines)).launch((1,), 32, memory).findings]


def test_products_of_64_bits_are_made_with_carries():
    given, out = _RANDOM.integers(0, 2**32, (32, 4), np.uint32), np.zeros((32, 4), np.uint32)
    lines = """ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd4];
      mad.lo.cc.u32 %r6, %r2, %r4, %r5; madc.hi.cc.u32 %r7, %r2, %r4, %r3; madc.hi.u32 %r8, %r3, %r4, 0;
      st.global.v4.u32 [%rd3], {%r6, %r7, %r8, %r1};"""
    assert of_a_warp(lines, given, out) == []
    for (a, b, c, d), (low, middle, high, _) in zip(given.tolist(), out.tolist(), strict=True):
        first = (a * c & 0xFFFFFFFF) + d
        second = (a * c >> 32) + b + (first >> 32)
        third = (b * c >> 32) + (second >> 32)
        assert (low, middle, high) == tuple(one & 0xFFFFFFFF for one in (first, second, third))


def test_a_local_array_is_found_by_addresses_of_32_bits_that_wrap():
    given, out = np.arange(128, dtype=np.uint32).reshape(32, 4), np.zeros((32, 4), np.uint32)
    lines = """ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd4]; mov.u32 %r6, kept; sub.u32 %r7, %r6, 8;
      st.local.v4.b32 [%r6], {%r2, %r3, %r4, %r5}; ld.local.v4.b32 {%r8, %r9, %r10, %r11}, [%r7+8];
      st.global.v4.u32 [%rd3], {%r8, %r9, %r10, %r11};"""
    assert of_a_warp(lines, given, out) == []
    assert (out == given).all()


def test_an_atomic_of_several_elements_adds_each_of_them():
    given, out = _RANDOM.standard_normal((32, 4)).astype(np.float32), np.ones((32, 4), np.float32)
    lines = """ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd4];
      red.relaxed.gpu.global.add.v4.f32 [%rd3], {%f1, %f2, %f3, %f4};"""
    assert of_a_warp(lines, given, out) == []
    assert (out == np.float32(1) + given).all()


def test_threads_of_a_warp_that_store_different_values_to_one_place_are_found():
    given, out = np.zeros((32, 4), np.uint32), np.zeros((32, 4), np.uint32)
    assert of_a_warp("st.global.u32 [%rd1], %r1;", given, out) == ["same place"]
    assert of_a_warp("mov.u32 %r2, 7; st.global.u32 [%rd1], %r2;", given, out) == []


def test_a_product_of_bytes_whose_sum_saturates_stays_inside_32_bits():
    given, out = np.full((32, 4), 0x7F7F7F7F, np.uint32), np.zeros((32, 4), np.uint32)
    lines = """ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd4]; mov.u32 %r6, 2147483000;
      mma.sync.aligned.m16n8k32.row.col.KIND.s32.s8.s8.s32 {%r8, %r9, %r10, %r11}, {%r2, %r3, %r4, %r5}, {%r2, %r3},
        {%r6, %r6, %r6, %r6};
      st.global.v4.u32 [%rd3], {%r8, %r9, %r10, %r11};"""
    assert of_a_warp(lines.replace("KIND", "satfinite"), given, out) == []
    assert set(out.ravel().tolist()) == {2**31 - 1}
    assert of_a_warp(lines.replace(".KIND", ""), given, out) == []
    assert set(out.ravel().tolist()) == {2147483000 + 32 * 127 * 127}


@pytest.mark.parametrize("pair", [("f32", "bf16x2"), ("f32", "f16x2"), ("f32", "e4m3x2")])
def test_of_a_pair_one_half_is_known_where_the_other_is_not(pair):
    """A conversion of one number leaves the other half open; what is stored of it must be the half that was made."""
    kind, to = pair
    size, words = (8, "satfinite.") if to.startswith("e") else (16, "")
    given, out = np.zeros((32, 4), np.uint32), np.zeros((32, 4), np.uint32)
    result = "%h1" if size == 8 else "%r2"
    made = f"ld.global.f32 %f1, [%rd4]; cvt.rn.{words}{to}.{kind} {result}, %f2, %f1;"
    unpacked = "" if size == 8 else "mov.b32 {%h1, %h2}, %r2;"
    assert of_a_warp(f"{made} {unpacked} st.global.b{size} [%rd3], %h1;", given, out) == []
    upper = "shr.b16 %h3, %h1, 8; st.global.b8 [%rd3], %h3;" if size == 8 else "st.global.b16 [%rd3], %h2;"
    assert of_a_warp(f"{made} {unpacked} {upper}", given, out) == ["undefined"]
    assert of_a_warp(f"{made} {unpacked} mov.b16 %h3, %h1; selp.b16 %h1, %h3, %h2, %p1;", given, out) == []


_IN_PARTS = {  # lines that use %r2, whose lower half alone is known: whether what is stored is known
    "and.b32 %r3, %r2, 0xffff;": True,
    "and.b32 %r3, %r2, 0x1ffff;": False,
    "shl.b32 %r3, %r2, 16;": True,
    "prmt.b32 %r3, %r2, %r1, 0x1054;": True,
    "prmt.b32 %r3, %r2, %r1, 0x2054;": False,
    "shfl.sync.bfly.b32 %r4, %r2, 1, 31, -1; cvt.u32.u16 %r3, %r4;": True,
    "add.u32 %r3, %r2, %r1;": False,
    "max.s32 %r3, %r2, %r1;": False,
    "xor.b32 %r3, %r2, %r2;": True,
    "st.shared.b32 [%r5], %r2; bar.sync 0; ld.shared.u16 %r3, [%r5];": True,
    "st.shared.b32 [%r5], %r2; bar.sync 0; ld.shared.u32 %r3, [%r5];": False,
    "st.shared.b32 [%r5], %r2; bar.sync 0; ld.shared.v2.u16 {%h3, %h4}, [%r5]; cvt.u32.u16 %r3, %h3;": True,
}


@pytest.mark.parametrize("lines", _IN_PARTS)
def test_what_is_known_of_a_register_is_known_byte_by_byte(lines):
    given, out = np.zeros((32, 4), np.uint32), np.zeros((32, 4), np.uint32)
    begin = "cvt.u16.u32 %h1, %r1; mov.b32 %r2, {%h1, %h2}; mov.u32 %r5, part; mad.lo.u32 %r5, %r1, 4, %r5;"
    found = of_a_warp(f"{begin} {lines} st.global.b32 [%rd3], %r3;", given, out)
    assert found == ([] if _IN_PARTS[lines] else ["undefined"])


_OF_TILES = f"""{_HEAD}.shared .align 128 .b8 tile[2048]; .shared .align 128 .b8 map[128]; .shared .align 8 .b64 bar;
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3)
{{ .reg .b64 %rd<8>; .reg .b32 %r<20>; .reg .pred %p<4>;
  ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; ld.param.u64 %rd3, [p2]; mov.u32 %r1, %tid.x;
  ld.param.u64 %rd4, [p3]; ld.global.v4.u32 {{%r2, %r3, %r4, %r5}}, [%rd4];
  mov.u32 %r6, map; mov.u32 %r7, bar; mov.u32 %r8, tile; mad.lo.u32 %r9, %r1, 4, %r6; mov.u32 %r10, 0;
  st.shared.u32 [%r9], %r10; bar.warp.sync -1; setp.eq.u32 %p1, %r1, 0; mov.u64 %rd5, 192;
  MAPS
  @%p1 mbarrier.init.shared::cta.b64 [%r7], 1; bar.sync 0;
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], BYTES;
  @%p1 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r8], [%rd3, {{%r2, %r3}}], [%r7];
$wait: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0; @!%p2 bra $wait;
  @%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd6, {{%r4, %r5}}], [%r8];
  cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; ret; }}"""


def map_of(address: str, fields: dict[str, int]) -> str:
    """Return the lines that make a tensor map of 48 x 10 numbers of 4 bytes at an address, and write it down."""
    values = {
        "rank": 1,
        "elemtype": 2,
        "interleave_layout": 0,
        "swizzle_mode": 0,
        "fill_mode": 0,
        "box_dim 0": 16,
        "box_dim 1": 4,
        "global_dim 0": 48,
        "global_dim 1": 10,
        "element_stride 0": 1,
        "element_stride 1": 1,
        **fields,
    }
    lines = [f"@%p1 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r6], {address};"]
    lines += ["@%p1 tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r6], 0, %rd5;"]
    for name, value in values.items():
        field, *place = name.split()
        lines.append(
            f"@%p1 tensormap.replace.tile.{field}.shared::cta.b1024.b32 [%r6], {', '.join([*place, str(value)])};"
        )
    return " ".join(lines)


def tiles(places: tuple[int, ...], text: str = _OF_TILES, **fields: int) -> tuple[Any, Any, list[str]]:
    """Copy a tile of 16 x 4 numbers from a place to a place of another tensor: both, and the kinds of findings."""
    kept = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
    maps = [
        f"{map_of(of, fields)} add.s64 %rd6, %rd3, {at}; {kept} [%rd6], [%r6], 128;"
        for at, of in ((0, "%rd2"), (128, "%rd1"))
    ]
    given, out = np.arange(1, 481, dtype=np.uint32).reshape(10, 48), np.zeros((10, 48), np.uint32)
    scratch = np.zeros(1024, np.uint8)
    memory = [Memory.of("out", out), Memory.of("in", given, writable=False)]
    memory += [
        Memory.of("maps", scratch[-scratch.ctypes.data % 256 :][:512]),
        Memory.of("places", np.array(places, np.int32)),
    ]
    text = text.replace("MAPS", " bar.warp.sync -1; ".join(maps)).replace("BYTES", "256")
    return given, out, [one.kind for one in Program(text).launch((1,), 32, memory).findings]


_PLACES = ((16, 4, 0, 0), (40, 8, 8, 5), (-4, -2, 32, 6), (44, 2, -8, -3), (100, 50, 0, 0), (3, 1, 30, 9))


@pytest.mark.parametrize("swizzle", range(4))
@pytest.mark.parametrize("places", _PLACES)
def test_a_tensor_map_copies_what_of_a_tile_is_inside_of_the_tensor(places, swizzle):
    given, out, found = tiles(places, swizzle_mode=swizzle)
    x, y, to_x, to_y = places
    right = np.zeros((64, 128), np.uint32)  # both tensors with eight and forty elements around them
    wide = np.pad(given, ((8, 100), (40, 200)))
    right[to_y + 8 : to_y + 12, to_x + 40 : to_x + 56] = wide[y + 8 : y + 12, x + 40 : x + 56]
    assert found == []
    assert (out == right[8:18, 40:88]).all()


def test_what_is_wrong_with_a_tensor_map_is_told():
    assert "unknown" in tiles((0, 0, 0, 0), **{"element_stride 1": 2})[2]
    assert "unknown" in tiles((0, 0, 0, 0), rank=2)[2]
    assert "no wait" in tiles((0, 0, 0, 0), re.sub(r"\$wait: .*;", "", _OF_TILES))[2]
    with pytest.raises(UnknownInstructionError, match="interleave_layout"):
        tiles((0, 0, 0, 0), interleave_layout=1)
    with pytest.raises(UnknownInstructionError, match="fill_mode"):
        tiles((0, 0, 0, 0), fill_mode=1)


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16", "s16", "u16", "s32", "u32", "s64", "u64"])
def test_each_comparison_of_each_type(kind):
    a, b = operands([kind] * 2)
    x, y = (one.astype(np.float64) if kind.strip("bf0123468") == "" else one for one in (a, b))
    unordered = np.isnan(x) | np.isnan(y) if x.dtype == np.float64 else np.zeros(COUNT, bool)
    for name, compare in _COMPARISONS.items():
        ways = {name: compare(x, y) & ~unordered}
        if kind in _NUMPY:
            ways[f"{name}u"] = compare(x, y) | unordered
        for way, right in ways.items():
            line = f"setp.{way}.{kind} %p1, {{0}}, {{1}}; selp.u32 {{to}}, 1, 0, %p1"
            assert (run(line, "u32", [kind] * 2, [a, b]) == right).all(), way


_ATOMICS: dict[str, tuple[Callable[[Any, Any], Any], tuple[str, ...]]] = {
    "add": (lambda a, b: a + b, ("u32", "s32", "u64", "f32", "f64")),
    "add.noftz": (lambda a, b: a + b, ("f16", "bf16")),
    "min": (np.minimum, ("u32", "s32", "u64", "s64")),
    "max": (np.maximum, ("u32", "s32", "u64", "s64")),
    "exch": (lambda a, b: b, ("b32", "b64")),
    "and": (np.bitwise_and, ("b32", "b64")),
    "or": (np.bitwise_or, ("b32", "b64")),
    "xor": (np.bitwise_xor, ("b32", "b64")),
    "inc": (lambda a, b: np.where(a >= b, 0, a + 1), ("u32",)),
    "dec": (lambda a, b: np.where((a == 0) | (a > b), b, a - 1), ("u32",)),
}


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, (_, kinds) in _ATOMICS.items() for kind in kinds])
def test_each_atomic_gives_what_was_there_and_changes_it(name, kind):
    a, b = operands([kind] * 2)
    right, before = _ATOMICS[name][0](a, b).astype(a.dtype), a.copy()
    assert same(run(f"atom.global.{name}.{kind} {{to}}, [%a1], {{1}}", kind, [kind] * 2, [a, b]), before).all()
    assert same(a, right).all()


@pytest.mark.parametrize("kind", ["b32", "b64"])
def test_an_atomic_exchange_compares(kind):
    a, b, c = operands([kind] * 3)
    b[::2] = a[::2]
    right, before = np.where(a == b, c, a), a.copy()
    got = run(f"atom.global.cas.{kind} {{to}}, [%a1], {{1}}, {{2}}", kind, [kind] * 3, [a, b, c])
    assert (got == before).all()
    assert (a == right).all()


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_an_atomic_adds_both_halves_of_a_pair(kind):
    a, b = (operands([kind])[0] for _ in range(2))
    words, others = (np.stack([one, one[::-1]], 1).view(np.uint32).ravel() for one in (a, b))
    run(f"atom.global.add.noftz.{kind}x2 {{to}}, [%a1], {{1}}", "u32", ["u32"] * 2, [words, others])
    assert same(words.view(a.dtype)[::2].copy(), a + b).all()
    assert same(words.view(a.dtype)[1::2].copy(), (a + b)[::-1].copy()).all()


@pytest.mark.parametrize("kind", ["s8", "u8", "s16", "u16", "s32", "u32"])
def test_loads_extend_by_sign_or_by_zeros_and_stores_cut_off(kind):
    [a] = operands([kind])
    for register, wide in (("%r8", "s32"), ("%d8", "s64")):
        line = f"ld.global.{kind} {register}, [%a1]; mov.b{wide[1:]} {{to}}, {register}"
        assert (run(line, wide, [kind], [a]) == a.astype(type_of(wide))).all(), wide
    b, whole = np.zeros_like(a), operands(["b32"])[0]
    run(f"st.global.b{kind[1:]} [%a1], {{1}}; mov.b32 {{to}}, {{1}}", "b32", [kind, "b32"], [b, whole])
    assert (b == whole.astype(a.dtype)).all()
    given, out = whole[:128].reshape(32, 4), np.zeros((32, 4), np.uint32)
    line = f"ld.local.{kind} %r3, [%r6]; st.global.b32 [%rd3], %r3;"
    assert of_a_warp(f"ld.global.b32 %r2, [%rd4]; mov.u32 %r6, kept; st.local.b32 [%r6], %r2; {line}", given, out) == []
    assert (out[:, 0].view(np.int32) == given[:, 0].astype(type_of(kind)).astype(np.int32)).all()


def test_addresses_of_spaces_are_told_apart():
    numbers = np.arange(COUNT, dtype=np.uint32)
    for space, other in (("shared", "local"), ("local", "shared"), ("global", "shared")):
        make = f"cvta.{space}.u64 %d8, %d7;" if space != "global" else "mov.b64 %d8, %a1;"
        line = f"cvt.u64.u32 %d7, {{0}}; {make} isspacep.{space} %p1, %d8; isspacep.{other} %p2, %d8;"
        line += f"cvta.to.{space}.u64 %d6, %d8; cvt.u32.u64 %r8, %d6; selp.u32 %r7, 1000000, 0, %p1;"
        line += "selp.u32 %r6, 2000000, 0, %p2; add.u32 %r8, %r8, %r7; add.u32 {to}, %r8, %r6"
        got = run(line, "u32", ["u32"], [numbers])
        assert (got == numbers + 1000000).all() or space == "global"
        assert ((got - got[0] == numbers * 4).all() and len(set(got)) == COUNT) or space != "global"


def test_signs_of_other_numbers_and_nan_in_flushed_extremes():
    for kind in ("f32", "f64"):
        a, b = operands([kind] * 2)
        got = run(f"copysign.{kind} {{to}}, {{0}}, {{1}}", kind, [kind] * 2, [a, b])
        assert (np.signbit(got) == np.signbit(a)).all()
        assert same(abs(got), abs(b)).all()
    for kind in ("f16", "bf16", "f32", "f64"):
        [a] = operands([kind])
        assert same(run(f"neg.{kind} {{to}}, {{0}}", kind, [kind], [a]), -a).all()
        assert same(run(f"abs.{kind} {{to}}, {{0}}", kind, [kind], [a]), abs(a)).all()
    a, b = operands(["f32"] * 2)
    x, y = (np.where(abs(one) < 2.0**-126, np.copysign(np.float32(0), one), one) for one in (a, b))
    for name, plain, strict in (("max", np.fmax, np.maximum), ("min", np.fmin, np.minimum)):
        for word, right in (("", plain(x, y)), (".NaN", strict(x, y))):
            got = run(f"{name}.ftz{word}.f32 {{to}}, {{0}}, {{1}}", "f32", ["f32"] * 2, [a, b])
            assert (same(got, right) | ((x == 0) & (y == 0))).all(), name
    got = run("add.sat.f32 {to}, {0}, {1}", "f32", ["f32"] * 2, [a, b])
    right = np.where(np.isnan(a + b), np.float32(0), np.clip(a + b, 0, 1)).astype(np.float32)
    assert (same(got, right) | ((got == 0) & (right == 0))).all()


def test_quotients_and_sums_of_products_of_doubles_are_rounded_once():
    a, b, c = operands(["f64"] * 3)
    assert same(run("div.rn.f64 {to}, {0}, {1}", "f64", ["f64"] * 2, [a, b]), a / b).all()
    got = run("fma.rn.f64 {to}, {0}, {1}, {2}", "f64", ["f64"] * 3, [a, b, c])
    checked = 0
    for result, *row in zip(got, a, b, c, strict=True):
        if np.isfinite([result, *row]).all() and result:
            assert result == float(Fraction(row[0]) * Fraction(row[1]) + Fraction(row[2]))
            checked += 1
    assert checked > COUNT // 2


def test_votes_matches_and_sums_over_a_warp():
    numbers = np.arange(COUNT, dtype=np.uint32)
    by_warp = numbers.reshape(-1, 32) * 0x9E3779B1
    flat = by_warp.ravel()
    sums: dict[str, Callable[[Any], Any]] = {
        "add.u32": lambda x: x.sum(1, dtype=np.uint32),
        "min.u32": lambda x: x.min(1),
        "max.u32": lambda x: x.max(1),
        "min.s32": lambda x: x.view(np.int32).min(1).view(np.uint32),
        "and.b32": lambda x: np.bitwise_and.reduce(x, 1),
        "or.b32": lambda x: np.bitwise_or.reduce(x, 1),
        "xor.b32": lambda x: np.bitwise_xor.reduce(x, 1),
    }
    for name, meaning in sums.items():
        got = run(f"redux.sync.{name} {{to}}, {{0}}, -1", "u32", ["u32"], [flat])
        assert (got.reshape(-1, 32) == meaning(by_warp)[:, None]).all(), name
    small = numbers // 3 % 4
    got = run("match.any.sync.b32 {to}, {0}, -1", "u32", ["u32"], [small])
    own = small.reshape(-1, 32)
    right = [[sum(1 << k for k in range(32) if row[k] == one) for one in row] for row in own]
    assert (got.reshape(-1, 32) == np.array(right, np.uint32)).all()
    few = np.repeat([0, 1, 2, 3], 256).astype(np.uint32) * (numbers % 4 > 0) + (numbers < 256)
    for name, meaning in {"all": np.all, "any": np.any, "uni": lambda x, axis: x.all(axis) | ~x.any(axis)}.items():
        line = f"setp.gt.u32 %p1, {{0}}, 0; vote.sync.{name}.pred %p2, %p1, -1; selp.u32 {{to}}, 1, 0, %p2"
        got = run(line, "u32", ["u32"], [few]).reshape(-1, 32)
        assert (got == meaning(few.reshape(-1, 32) > 0, axis=1)[:, None]).all(), name


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("form", ["", ".trans"])
def test_matrices_of_8_x_8_are_loaded_from_shared_memory_and_stored_there(count, form):
    matrices = _RANDOM.integers(0, 2**16, (count, 8, 8), np.uint16)
    given, out = np.zeros((32, 4), np.uint32), np.zeros((32, 4), np.uint32)
    given.view(np.uint16)[: 8 * count] = matrices.reshape(-1, 8)
    names = "{" + ", ".join(f"%r{10 + n}" for n in range(count)) + "}"
    stores = " ".join(f"st.global.b32 [%rd3+{4 * n}], %r{10 + n};" for n in range(count))
    whole = "ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd4]; mov.u32 %r6, rows; mad.lo.u32 %r7, %r1, 16, %r6;"
    lines = f"""{whole} st.shared.v4.b32 [%r7], {{%r2, %r3, %r4, %r5}}; bar.sync 0;
      ldmatrix.sync.aligned.m8n8.x{count}{form}.shared.b16 {names}, [%r7]; {stores}"""
    assert of_a_warp(lines, given, out) == []
    for n, matrix in enumerate(matrices):
        right = matrix.T if form else matrix
        got = out[:, n].copy().view(np.uint16)
        assert (got == [right[lane // 4, 2 * (lane % 4) + k] for lane in range(32) for k in range(2)]).all()
    back = f"""{whole} ld.global.b32 %r10, [%rd4]; ld.global.b32 %r11, [%rd4+4]; ld.global.b32 %r12, [%rd4+8];
      ld.global.b32 %r13, [%rd4+12]; st.shared.v4.b32 [%r7], {{%r1, %r1, %r1, %r1}}; bar.sync 0;
      stmatrix.sync.aligned.m8n8.x{count}{form}.shared.b16 [%r7], {names}; bar.sync 0;
      ld.shared.v4.b32 {{%r2, %r3, %r4, %r5}}, [%r7]; st.global.v4.b32 [%rd3], {{%r2, %r3, %r4, %r5}};"""
    parts = out.copy()
    assert of_a_warp(back, parts, out) == []
    assert (out.view(np.uint16)[: 8 * count].reshape(count, 8, 8) == matrices).all()


@pytest.mark.parametrize(("blocks", "depth"), [(1, 4), (2, 4), (2, 8), (2, 16)])
def test_a_product_of_doubles_has_the_layout_of_the_isa(blocks, depth):
    shapes = ((8 * blocks, depth), (depth, 8), (8 * blocks, 8))
    a, b, c = (_RANDOM.integers(-8, 8, shape).astype(np.float64) for shape in shapes)
    counts = blocks * depth // 4, depth // 4, 2 * blocks
    given, out = np.zeros((32, sum(counts))), np.zeros((32, 2 * blocks))

    def spread(matrix: Any) -> Any:
        rows = [[(lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2) for i in range(counts[2])] for lane in range(32)]
        return np.array([[matrix[place] for place in row] for row in rows])

    for lane in range(32):
        left = [a[lane // 4 + 8 * (i % blocks), lane % 4 + 4 * (i // blocks)] for i in range(counts[0])]
        given[lane] = *left, *(b[lane % 4 + 4 * i, lane // 4] for i in range(counts[1])), *spread(c)[lane]
    names = iter(f"%d{n}" for n in range(sum(counts)))
    left, right, total = ("{" + ", ".join(next(names) for _ in range(count)) + "}" for count in counts)
    loads = " ".join(f"ld.global.f64 %d{n}, [%rd4+{8 * n}];" for n in range(sum(counts)))
    stores = " ".join(f"st.global.f64 [%rd3+{8 * n}], {one};" for n, one in enumerate(total.strip("{}").split(", ")))
    lines = f"""mad.wide.u32 %rd4, %r1, {8 * sum(counts)}, %rd2; mad.wide.u32 %rd3, %r1, {16 * blocks}, %rd1;
      .reg .f64 %d<{sum(counts)}>; {loads}
      mma.sync.aligned.m{8 * blocks}n8k{depth}.row.col.f64.f64.f64.f64 {total}, {left}, {right}, {total}; {stores}"""
    assert of_a_warp(lines, given, out) == []
    assert (out == spread(a @ b + c)).all()


def test_a_copy_fills_with_zeros_and_waits_for_the_group_that_is_asked_for():
    given, out = _RANDOM.integers(1, 2**32, (32, 4), np.uint32), np.zeros((32, 4), np.uint32)
    copies = """mov.u32 %r6, rows; mad.lo.u32 %r7, %r1, 16, %r6; and.b32 %r8, %r1, 15; and.b32 %r8, %r8, 12;
      cp.async.cg.shared.global [%r7], [%rd4], 16, %r8; cp.async.commit_group;
      cp.async.ca.shared.global [%r7+512], [%rd4+4], 4; cp.async.commit_group; cp.async.wait_group WAIT;
      ld.shared.v4.b32 {%r2, %r3, %r4, %r5}, [%r7]; st.global.v4.b32 [%rd3], {%r2, %r3, %r4, %r5};"""
    assert of_a_warp(copies.replace("WAIT", "1"), given, out) == []
    for lane in range(32):
        kept = (lane & 12) // 4
        assert out[lane].tolist() == [*given[lane, :kept].tolist(), *[0] * (4 - kept)]
    assert of_a_warp(copies.replace("WAIT", "2"), given, out) == ["no wait"]
    second = copies.replace("ld.shared.v4", "ld.shared.b32 %r9, [%r7+512]; ld.shared.v4")
    assert of_a_warp(second.replace("WAIT", "1"), given, out) == ["no wait"]
    assert of_a_warp(second.replace("WAIT", "0"), given, out) == []
    assert of_a_warp(second.replace("cp.async.wait_group WAIT", "cp.async.wait_all"), given, out) == []


def test_a_copy_in_bulk_out_of_shared_memory_is_waited_for():
    given, out = _RANDOM.integers(1, 2**32, (32, 4), np.uint32), np.zeros((32, 4), np.uint32)
    lines = """mov.u32 %r6, rows; mad.lo.u32 %r7, %r1, 16, %r6; setp.eq.u32 %p2, %r1, 0; mov.u32 %r8, 512;
      ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd4]; st.shared.v4.b32 [%r7], {%r2, %r3, %r4, %r5}; bar.sync 0;
      @%p2 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r6], %r8; cp.async.bulk.commit_group;
      cp.async.bulk.wait_group.read WAIT; bar.sync 0; st.shared.b32 [%r7], %r1;"""
    assert of_a_warp(lines.replace("WAIT", "0"), given, out) == []
    assert (out == given).all()
    assert of_a_warp(lines.replace("WAIT", "1"), given, out) == ["no wait"]


@pytest.mark.parametrize("kind", ["s16", "s32", "s64"])
def test_signs_and_high_products_of_integers(kind):
    bits = int(kind[1:])
    a, b, c = operands([kind] * 3)
    rows = [tuple(map(int, row)) for row in zip(a, b, c, strict=True)]
    assert (run(f"neg.{kind} {{to}}, {{0}}", kind, [kind], [a]) == wrapped([-x for x, *_ in rows], kind)).all()
    assert (run(f"abs.{kind} {{to}}, {{0}}", kind, [kind], [a]) == wrapped([abs(x) for x, *_ in rows], kind)).all()
    for word, low in (("s", a), ("u", a.view(f"u{bits // 8}"))):
        one = f"{word}{bits}"
        numbers = [tuple(map(int, row)) for row in zip(low, b.view(low.dtype), c.view(low.dtype), strict=True)]
        got = run(f"mad.hi.{one} {{to}}, {{0}}, {{1}}, {{2}}", one, [one] * 3, [x.view(low.dtype) for x in (a, b, c)])
        assert (got == wrapped([(x * y >> bits) + z for x, y, z in numbers], one)).all(), one
        if bits > 16:
            got = run(f"bfind.{one} {{to}}, {{0}}", "u32", [one], [low])
            right = [(~x if x < 0 else x).bit_length() - 1 for x, *_ in numbers]
            assert (got == wrapped(right, "u32")).all(), one
    width = f"b{bits}"
    assert (run(f"cnot.{width} {{to}}, {{0}}", width, [width], [a.view(f"u{bits // 8}")]) == (a == 0)).all()
    assert (run(f"or.{width} {{to}}, {{0}}, {{1}}", kind, [kind] * 2, [a, b]) == (a | b)).all()
    for name, right in (("eq", a == b), ("ne", a != b)):
        line = f"setp.{name}.{width} %p1, {{0}}, {{1}}; selp.u32 {{to}}, 1, 0, %p1"
        assert (run(line, "u32", [kind] * 2, [a, b]) == right).all(), name


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", ["add", "sub"])
def test_sums_of_two_words_carry(name, bits):
    kind = f"u{bits}"
    a, b, c, d = operands([kind] * 4)
    x, y = ([int(low) | int(high) << bits for low, high in zip(*pair, strict=True)] for pair in ((a, c), (b, d)))
    total = [p + q if name == "add" else p - q for p, q in zip(x, y, strict=True)]
    register = _REGISTERS[bits]
    line = f"{name}.cc.{kind} {register}8, {{0}}, {{1}}; {name}c.{kind} {{to}}, {{2}}, {{3}}"
    assert (run(line, kind, [kind] * 4, [a, b, c, d]) == wrapped([one >> bits for one in total], kind)).all()
    low = f"{name}.cc.{kind} {{to}}, {{0}}, {{1}}"
    assert (run(low, kind, [kind] * 2, [a, b]) == wrapped(total, kind)).all()


@pytest.mark.parametrize("kinds", ["s32.s32", "u32.u32", "s32.u32", "u32.s32"])
def test_sums_of_products_of_bytes(kinds):
    a, b, c = operands(["u32"] * 3)
    x, y = (
        one.view(f"{'i' if kind[0] == 's' else 'u'}1").reshape(-1, 4).astype(np.int64)
        for one, kind in zip((a, b), kinds.split("."), strict=True)
    )
    right = wrapped((x * y).sum(1) + c.astype(np.int64), "u32")
    assert (run(f"dp4a.{kinds} {{to}}, {{0}}, {{1}}, {{2}}", "u32", ["u32"] * 3, [a, b, c]) == right).all()


@pytest.mark.parametrize("name", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
def test_conversions_to_and_from_each_integer(name):
    info = np.iinfo(type_of(name))
    to, wide = f"{name[0]}{max(int(name[1:]), 16)}", type_of(f"{name[0]}{max(int(name[1:]), 16)}")
    rounds = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}
    for kind in ("f32", "f64"):
        [a] = operands([kind])
        for word, whole in rounds.items():
            x = whole(a.astype(np.longdouble))
            right = [
                0 if one != one else int(min(max(one, np.longdouble(info.min)), np.longdouble(info.max))) for one in x
            ]
            got = run(f"cvt.{word}.{name}.{kind} {{to}}, {{0}}", to, [kind], [a])
            known = ~np.isnan(a) | (int(name[1:]) < 64)
            assert (
                got == np.array([one & 2 ** (8 * wide.itemsize) - 1 for one in right], f"u{wide.itemsize}").view(wide)
            )[known].all(), (word, kind)
        [b] = operands([name])
        source = np.array(b, dtype=wide)
        got = run(f"cvt.rn.{kind}.{name} {{to}}, {{0}}", kind, [to], [source])
        assert same(got, b.astype(_NUMPY[kind])).all()
    for other in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"):
        limits, [b] = np.iinfo(type_of(other)), operands([name])
        into = f"{other[0]}{max(int(other[1:]), 16)}"
        got = run(f"cvt.sat.{other}.{name} {{to}}, {{0}}", into, [to], [np.array(b, dtype=wide)])
        right = [min(max(int(one), int(limits.min)), int(limits.max)) for one in b]
        assert got.tolist() == right, other


@pytest.mark.parametrize("mode", ["rn", "rz"])
def test_narrow_numbers_are_rounded_as_the_mode_says(mode):
    [a] = operands(["f32"])
    for kind in ("f16", "bf16"):
        got = run(f"cvt.{mode}.{kind}.f32 {{to}}, {{0}}", kind, ["f32"], [a]).astype(np.float64)
        near = a.astype(_NUMPY[kind])
        if mode == "rz":
            x, exact = near.astype(np.float64), a.astype(np.float64)
            back = np.nextafter(near, _NUMPY[kind](0)).astype(np.float64)
            right = np.where(np.abs(x) > np.abs(exact), back, x)
        else:
            right = near.astype(np.float64)
        assert (same(got, right) | ((got == 0) & (right == 0)) | np.isinf(a)).all(), kind
        got = run(f"cvt.{mode}.relu.{kind}.f32 {{to}}, {{0}}", kind, ["f32"], [a]).astype(np.float64)
        assert (got >= 0)[~np.isnan(a)].all()


@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
def test_what_is_too_large_is_infinite_only_where_the_mode_rounds_away(name):
    most = np.float32(3.4028235e38)
    for sign in (1, -1):
        a = np.full(COUNT, sign * most)
        other = np.full(COUNT, {"sub": -sign * most, "add": sign * most}.get(name, np.float32(2)))
        given = [a, other, a][: 3 if name == "fma" else 2]
        for mode in ("rn", "rz", "rm", "rp"):
            stays = mode == "rz" or mode == ("rm" if sign > 0 else "rp")
            line = f"{name}.{mode}.f32 {{to}}, " + ", ".join(f"{{{n}}}" for n in range(len(given)))
            assert set(run(line, "f32", ["f32"] * len(given), given)) == {sign * (most if stays else np.float32("inf"))}


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_fields_of_bits_begin_anywhere(kind):
    bits = int(kind[1:])
    [a] = operands([kind])
    start, count = (_RANDOM.integers(0, 80, COUNT, np.uint32) for _ in range(2))
    right = []
    for value, low, size in zip(map(int, a), map(int, start), map(int, count), strict=True):
        whole = value & (1 << bits) - 1
        sign = whole >> min(low + size - 1, bits - 1) & 1 if kind[0] == "s" and size else 0
        kept = max(min(size, bits - low), 0)
        right.append(whole >> low & (1 << kept) - 1 | -sign << kept)
    got = run(f"bfe.{kind} {{to}}, {{0}}, {{1}}, {{2}}", kind, [kind, "u32", "u32"], [a, start, count])
    assert (got == wrapped(right, kind)).all()


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_bits_of_each_width(bits):
    kind = f"b{bits}"
    a, b = operands([kind] * 2)
    by = _RANDOM.integers(0, 80, COUNT, np.uint32)
    rows = list(zip(map(int, a), map(int, b), map(int, by), strict=True))
    got = run(f"shl.{kind} {{to}}, {{0}}, {{1}}", kind, [kind, "u32"], [a, by])
    assert (got == wrapped([x << n if n < bits else 0 for x, _, n in rows], kind)).all()
    if bits > 16:
        lines: dict[str, Callable[[int, int], int]] = {
            "brev": lambda x, _: int(f"{x:0{bits}b}"[::-1], 2),
            "popc": lambda x, _: x.bit_count(),
            "clz": lambda x, _: bits - x.bit_length(),
        }
        for name, meaning in lines.items():
            to = kind if name == "brev" else "b32"
            right = wrapped([meaning(x, y) for x, y, _ in rows], to)
            assert (run(f"{name}.{kind} {{to}}, {{0}}", to, [kind], [a]) == right).all(), name
        got = run(f"bfi.{kind} {{to}}, {{0}}, {{1}}, {bits - 9}, 30", kind, [kind] * 2, [a, b])
        assert (got == wrapped([y & (1 << bits - 9) - 1 | x << bits - 9 for x, y, _ in rows], kind)).all()


def test_halves_of_sums_and_conversions_flush_and_stay_above_zero():
    a, b, c = operands(["f16"] * 3)
    got = run("fma.rn.relu.f16 {to}, {0}, {1}, {2}", "f16", ["f16"] * 3, [a, b, c])
    right = (a.astype(np.longdouble) * b + c).astype(np.float16)
    assert (same(got, np.where(right < 0, np.float16(0), right)) | ((got == 0) & (right == 0))).all()
    [x] = operands(["f32"])
    pairs = run("cvt.rn.f16x2.f32 {to}, {0}, {1}", "u32", ["f32"] * 2, [x, x[::-1].copy()]).view(np.float16)
    assert same(pairs[1::2].copy(), x.astype(np.float16)).all()
    assert same(pairs[::2].copy(), x[::-1].astype(np.float16)).all()
    flushed = np.where(np.abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x)
    assert same(run("cvt.rpi.ftz.f32.f32 {to}, {0}", "f32", ["f32"], [x]), np.ceil(flushed)).all()
    assert same(run("cvt.ftz.f64.f32 {to}, {0}", "f64", ["f32"], [x]), flushed.astype(np.float64)).all()
    y = operands(["f64"])[0] * 1e-39
    right = y.astype(np.float32)
    right = np.where(np.abs(right) < 2.0**-126, np.copysign(np.float32(0), right), right)
    assert same(run("cvt.rn.ftz.f32.f64 {to}, {0}", "f32", ["f64"], [y]), right).all()


_UNKNOWN_ADDRESSES = (
    *("ld.global.b32 %r2, [%rd6];", "st.global.b32 [%rd6], %r1;", "ld.shared.b32 %r2, [%r7];"),
    *("st.shared.b32 [%r7], %r1;", "red.global.add.u32 [%rd6], %r1;", "red.global.add.u32 [%rd3], %r7;"),
    *("cp.async.cg.shared.global [%r7], [%rd4], 16;", "cp.async.cg.shared.global [%r6], [%rd6], 16;"),
    *("cp.async.cg.shared.global [%r6], [%rd4], 16, %r7;", "st.global.b32 [%rd3], %r7;"),
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r7];",
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r7], {%r1};",
    *("mbarrier.init.shared::cta.b64 [%r7], 1;", "mbarrier.init.shared::cta.b64 [%r6], %r7;"),
    "cp.async.bulk.global.shared::cta.bulk_group [%rd6], [%r6], 16;",
    "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r7], 16;",
    "vote.sync.all.pred %p1, %p2, -1;",
    "match.any.sync.b32 %r2, %r7, -1;",
    "redux.sync.add.u32 %r2, %r7, -1;",
)


@pytest.mark.parametrize("line", _UNKNOWN_ADDRESSES)
def test_an_operand_that_nobody_wrote_is_found(line):
    given, out = np.zeros((32, 4), np.uint32), np.zeros((32, 4), np.uint32)
    begin = "mov.u32 %r6, rows; mad.lo.u32 %r6, %r1, 16, %r6; st.shared.v4.b32 [%r6], {%r1, %r1, %r1, %r1};"
    assert "undefined" in of_a_warp(f"{begin} {line}", given, out)
    known = "mov.u32 %r7, rows; mad.lo.u32 %r7, %r1, 16, %r7; mov.u64 %rd6, %rd3; setp.eq.u32 %p2, 0, 0;"
    assert "undefined" not in of_a_warp(f"{begin} {known} {line}", given, out)


def test_a_barrier_of_some_warps_lets_them_alone_go_on():
    text = f"""{_HEAD}.shared .align 4 .b8 cell[512]; .visible .entry k(.param .u64 p0)
{{ .reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %p<3>;
  ld.param.u64 %rd1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, cell; mad.lo.u32 %r3, %r1, 4, %r2; xor.b32 %r4, %r1, 32;
  mad.lo.u32 %r4, %r4, 4, %r2; st.shared.b32 [%r3], %r1; setp.lt.u32 %p1, %r1, 64; @!%p1 bra $end; bar.sync 1, COUNT;
  ld.shared.b32 %r5, [%r4]; mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.b32 [%rd2], %r5; $end: ret; }}"""
    out = np.zeros(128, np.uint32)
    assert not Program(text.replace("COUNT", "64")).launch((1,), 128, [Memory.of("out", out)]).findings
    assert out[:64].tolist() == [n ^ 32 for n in range(64)]
    for count, kind in ((32, "race"), (96, "deadlock")):
        found = Program(text.replace("COUNT", str(count))).launch((1,), 128, [Memory.of("out", out)]).findings
        assert kind in {one.kind for one in found}


def test_a_barrier_in_shared_memory_ends_its_phase_with_the_last_arrival():
    lines = """mov.u32 %r6, rows; setp.eq.u32 %p1, %r1, 0;
      @%p1 mbarrier.init.shared::cta.b64 [%r6], 32; bar.warp.sync -1;
      mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r6], 0; selp.u32 %r2, 1, 0, %p2; bar.warp.sync -1;
      mbarrier.arrive.shared::cta.b64 %rd5, [%r6]; bar.warp.sync -1;
      mbarrier.test_wait.shared::cta.b64 %p2, [%r6], %rd5; selp.u32 %r3, 1, 0, %p2;
      mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r6], 1; selp.u32 %r4, 1, 0, %p2;
      setp.lt.u32 %p1, %r1, 16; @%p1 mbarrier.arrive.shared::cta.b64 _, [%r6], 2;
      mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r6], 1; selp.u32 %r5, 1, 0, %p2;
      st.global.v4.b32 [%rd3], {%r2, %r3, %r4, %r5};"""
    given, out = np.zeros((32, 4), np.uint32), np.zeros((32, 4), np.uint32)
    assert of_a_warp(lines, given, out) == []
    assert out.tolist() == [[0, 1, 0, 1]] * 32
