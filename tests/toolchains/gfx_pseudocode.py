"""Execute each opcode of the emulator on random and special values, and compare with AMD's pseudocode: prints JSON."""

from __future__ import annotations

import ctypes
import importlib
import json
import math
import random
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

from pseudocode import Evaluator, NotCovered, Parser, Value

from gpu_emulators.amd import decoding, library
from gpu_emulators.amd.names import NOTHING, common
from gpu_emulators.amd.translate import translate
from gpu_emulators.common.errors import UnknownInstructionError

FAMILIES = {"cdna": ("gfx950", 64), "rdna3": ("gfx1100", 32), "rdna4": ("gfx1201", 32)}
ENCODINGS = (
    "VOP1",
    "VOP1_SDST",
    "VOP2",
    "VOPC",
    "VOP3",
    "VOP3_SDST",
    "VOP3SD",
    "VOP3P",
    "SOP1",
    "SOP2",
    "SOPC",
    "SOPK",
)
WITH_LITERAL, LITERAL = ("VOP2_LIT", "SOP2_LIT"), 0xC0A13E66  # of these what names the constant; its halves are numbers
REGISTERS, LANES, VCC, CARRY, SCALAR_RESULT, RESULT = 16, 64, 106, 8, 20, 10
TABLE = {"omod": 2, "abs": 5, "neg": 3}  # of any function of three bits
ROUNDED = re.compile(r"_(exp|log|rcp|rcp_iflag|rsq|sqrt)_f(16|32)$")  # the hardware's results are within one unit
EXPONENTS = {"f16": 0x7C00, "f32": 0x7F800000, "f64": 0x7FF << 52}
SOME = "".join(sys.argv[2:])  # the opcodes that are compared
F32 = (
    0,
    0x80000000,
    0x7F800000,
    0xFF800000,
    0x7FC00000,
    1,
    0x807FFFFF,
    0x7F7FFFFF,
    0x3F800000,
    0xBFC00000,
    0x4F000000,
    0xCF800000,
    0x40200000,
)
F16 = (0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 1, 0x83FF, 0x7BFF, 0x3C00, 0xBE00)
BF16 = (*F16, 0x8001)  # the low half: one bit above the middle of two numbers of bf16
INTEGERS = (0, 1, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 31, 32, 33, 0x00FFFFFF, 0x00800000, 0x8000, 0xFFFF)


def drawn(draw: random.Random, name: str) -> int:
    """Return 64 bits for an operand: a special value, a number of moderate size, or any bits."""
    chance = draw.random()
    if "f64" in name:
        return (
            decoded(draw.choice([0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1.5, -2.0]))
            if chance < 0.4
            else decoded(draw.gauss(0, 10))
        )
    if re.search(r"(^|_)(pk_)?\w*f16", name) and chance < 0.5:
        return sum(draw.choice(BF16 if "bf16" in name else F16) << 16 * k for k in range(4))
    if chance < 0.25:
        return draw.choice(F32) | draw.choice(F32) << 32
    if chance < 0.5:
        return draw.choice(INTEGERS) | draw.choice(INTEGERS) << 32
    if chance < 0.75:
        return single(draw.gauss(0, 4)) | single(draw.gauss(0, 4)) << 32
    bits = draw.getrandbits(64)
    return bits & ~0x7F8000007F800000 | 0x3F8000003F800000 if "f32" in name else bits  # no signalling NaN


def decoded(x: float) -> int:
    return int.from_bytes(memoryview(ctypes.c_double(x)).cast("B"), "little")


def single(x: float) -> int:
    return int.from_bytes(memoryview(ctypes.c_float(x)).cast("B"), "little")


def forms(family: str) -> Iterator[tuple[str, bytes, int]]:
    """Yield each opcode in each encoding, with the machine code of a use of it and its constant of 16 bits."""
    decoding._decoder()
    module = importlib.import_module(f"tinygrad.runtime.autogen.amd.{family}.ins")
    texts = decoding.pseudocode(family)
    for encoding in (*ENCODINGS, *WITH_LITERAL):
        kind = getattr(module, encoding, None)
        for opcode in sorted(dict(kind._fields)["op"].allowed or (), key=lambda one: one.name) if kind else ():
            name = decoding._SUFFIX.sub("", opcode.name.lower())
            if encoding in ENCODINGS or "SIMM32" in texts.get(name, ""):
                yield f"{encoding} {name}", *machine_code(kind, encoding, name, opcode)


def machine_code(kind: Any, encoding: str, name: str, opcode: Any) -> tuple[bytes, int]:
    constant = random.Random(name).getrandbits(16)
    is_masked = "cndmask" in name or "_co_ci_" in name or name in ("v_addc_co_u32", "v_subb_co_u32", "v_subbrev_co_u32")
    values = {
        "op": opcode.value, "src0": 256, "vsrc1": 2, "src1": 258, "src2": CARRY if is_masked else 260, "vdst": RESULT,
        "ssrc0": 4, "ssrc1": 6, "sdst": SCALAR_RESULT, "simm16": constant, "opsel_hi": 3, "opsel_hi2": 1,
        "literal": LITERAL,
    }  # fmt: skip
    if encoding.endswith("SDST") or (encoding == "VOP3" and name.startswith("v_cmp")):
        values["vdst"] = SCALAR_RESULT
    if name.startswith("v_s_"):
        values |= {"src0": 4, "vdst": SCALAR_RESULT}
    if name in ("v_readlane_b32", "v_writelane_b32"):
        values |= {"src1": 6, "src0": 4 if "write" in name else 256}
    if "bitop3" in name:
        values |= TABLE
    raw = 0
    for field, position in kind._fields:
        value = values.get(field, position.default if type(position).__name__ == "FixedBitField" else 0)
        raw |= (value & position.mask) << position.lo
    return raw.to_bytes(16, "little"), constant


class State:
    """The registers before or after an instruction."""

    def __init__(self, lanes: int, name: str, seed: int) -> None:
        draw = random.Random(f"{name} {seed}")
        self.lanes = lanes
        self.vectors = (ctypes.c_uint32 * (REGISTERS * LANES))()
        for pair in range(0, REGISTERS, 2):
            for lane in range(lanes):
                bits = drawn(draw, name) if pair == 0 or draw.random() < 0.9 else self.vector(0, lane)  # or equal
                self.vectors[pair * LANES + lane], self.vectors[(pair + 1) * LANES + lane] = (
                    bits & 0xFFFFFFFF,
                    bits >> 32,
                )
        self.scalars = (ctypes.c_uint32 * 128)(*(0 for _ in range(128)))
        for pair in range(0, 108, 2):
            bits = drawn(draw, name) if pair != 6 or draw.random() < 0.7 else self.scalar(4)
            self.scalars[pair], self.scalars[pair + 1] = bits & 0xFFFFFFFF, bits >> 32
        self.exec = ctypes.c_uint64((draw.getrandbits(lanes) | 1) if seed else (1 << lanes) - 1)
        self.scc = ctypes.c_uint32(draw.getrandbits(1))

    def vector(self, number: int, lane: int) -> int:
        return self.vectors[number * LANES + lane] | self.vectors[(number + 1) * LANES + lane] << 32

    def scalar(self, number: int) -> int:
        return self.scalars[number] | self.scalars[number + 1] << 32

    def mask(self, number: int) -> int:
        return self.scalar(number) & ((1 << self.lanes) - 1)


def executed(code: bytes, target: str, family: str, name: str, seed: int) -> tuple[State, State]:
    lanes = FAMILIES[family][1]
    before, after = State(lanes, name, seed), State(lanes, name, seed)
    first = decoding._decoded(code, decoding.family_of(target), target, 0)
    [record] = translate([first], target).records
    handler = library.handler(record.handler)
    if handler is None:
        raise UnknownInstructionError(name)
    library.library().execute(
        record.packed(handler), lanes, list(FAMILIES).index(family), 0xF0, after.vectors, REGISTERS, after.scalars,
        ctypes.byref(after.exec), ctypes.byref(after.scc),
    )  # fmt: skip
    return before, after


@cache
def tree(family: str, name: str) -> Any:
    texts = decoding.pseudocode(family)
    if name not in texts:
        raise NotCovered(f"no pseudocode of {name}")
    parser = Parser(texts[name])
    return parser.block("")


def called(family: str) -> Any:
    """Return how the pseudocode of another opcode is called as a function."""

    def other(name: str, arguments: list[Value]) -> Value:
        names: dict[str, Any] = {f"S{k}": value for k, value in enumerate(arguments)}
        names |= {"D0": Value(0, 64, "b"), "WAVE_MODE": {"IEEE": Value(0, 1)}}
        Evaluator(names, other).run(tree(family, name))
        first = arguments[0]
        return Value(names["D0"].bits & (1 << first.width) - 1, first.width, first.kind)

    return other


def shared_names(state: State, constant: int) -> dict[str, Any]:
    """Return what all lanes share, by the pseudocode's names."""
    return {
        "VCC": Value(state.scalar(VCC), 64),
        "SCC": Value(state.scc.value, 1),
        "EXEC": Value(state.exec.value, 64),
        "WAVE_MODE": {"IEEE": Value(0, 1)},
        "ROUND_NEAREST_EVEN": "near",
        "ROUND_TOWARD_ZERO": "zero",
        "ROUND_MODE": "near",
        "OPSEL": Value(0, 32),
        "NEG": Value(0, 32),
        "OPSEL_HI": Value(7, 32),
        "SIMM16": Value(constant, 16),
        "SIMM32": Value(LITERAL, 32, "b"),
        "TRAPSTS": {},
        "INST": {field.upper(): Value(bits, 32) for field, bits in TABLE.items()},
        "WAVE32": Value(int(state.lanes == 32), 1),
        "WAVE64": Value(int(state.lanes == 64), 1),
        "UNDERFLOW_F32": Value(0, 32, "f"),
    }


def named(names: dict[str, Any], operands: list[int], result: int) -> dict[str, Any]:
    names |= {f"S{k}": Value(bits, 64, "b") for k, bits in enumerate(operands)}
    return names | {"S": [Value(bits, 64, "b") for bits in operands], "D0": Value(result, 64, "b"), "D1": Value(0, 64)}


def of_scalars(family: str, form: str, state: State, constant: int) -> tuple[int, dict[str, int]]:
    """Return what the pseudocode says of the result of a scalar instruction, of SCC and of EXEC."""
    encoding, name = form.split()
    operands = [state.scalar(4), state.scalar(6)]
    if encoding == "SOPK":
        operands = [state.scalar(SCALAR_RESULT), constant] if "cmpk" in name else [constant]
    names = named(shared_names(state, constant), operands, state.scalar(SCALAR_RESULT))
    Evaluator(names, called(family)).run(tree(family, name))
    return names["D0"].bits & (1 << 64) - 1, {"SCC": names["SCC"].bits & 1, "EXEC": names["EXEC"].bits}


def of_vectors(family: str, form: str, state: State, constant: int) -> tuple[list[int], int]:
    """Return what the pseudocode says of each lane's result, and of the mask that all lanes make together."""
    encoding, name = form.split()
    results, mask = [], 0
    for lane in range(state.lanes):
        operands = [state.vector(number, lane) for number in (0, 2, 4)]
        if name.startswith("v_s_"):
            operands[0] = state.scalar(4)
        old = 0 if "cmp" in name else state.vector(RESULT, lane)
        names = named(shared_names(state, constant) | {"laneId": Value(lane, 32)}, operands, old)
        if encoding in ("VOP3", "VOP3SD") and re.search("cndmask|_ci_|addc|subb", name):
            names["VCC"] = Value(state.scalar(CARRY), 64)
        before = names["VCC"].bits
        Evaluator(names, called(family)).run(tree(family, name))
        results.append(names.get("D", names["D0"]).bits & (1 << 64) - 1)
        if not state.exec.value >> lane & 1:
            continue
        if "_mad_" in name:
            mask |= (names["D1"].bits & 1) << lane
        elif "cmp" in name:
            mask |= names["EXEC" if "cmpx" in name else "D0"].bits & 1 << lane
        elif "_co_" in name or names["VCC"].bits != before:
            mask |= names["VCC"].bits & 1 << lane
    return results, mask


def difference(family: str, form: str, code: bytes, constant: int, seed: int) -> str:
    """Return how the emulator and the pseudocode differ; empty where they agree."""
    before, after = executed(code, FAMILIES[family][0], family, form, seed)
    compare = of_scalar_result if form.startswith("SOP") else of_vector_result
    return compare(family, form, constant, before, after)


def told(family: str, form: str, code: bytes, constant: int) -> str:
    """Return the first difference; a scalar instruction has one number where another one has a number in each lane."""
    seeds = range(24 if form.startswith("SOP") else 2)
    return next(filter(None, (difference(family, form, code, constant, seed) for seed in seeds)), "same")


def of_scalar_result(family: str, form: str, constant: int, before: State, after: State) -> str:
    encoding, name = form.split()
    result, shared = of_scalars(family, form, before, constant)
    if shared["SCC"] != after.scc.value:
        return f"SCC {after.scc.value}, not {shared['SCC']}"
    if (shared["EXEC"] ^ after.exec.value) & ((1 << before.lanes) - 1):
        return f"EXEC {after.exec.value:#x}, not {shared['EXEC']:#x}"
    if encoding == "SOPC" or "cmpk" in name:
        return ""
    return compared(name, family, result, after.scalar(SCALAR_RESULT), before.scalar(4), before.scalar(6))


def of_vector_result(family: str, form: str, constant: int, before: State, after: State) -> str:
    encoding, name = form.split()
    results, mask = of_vectors(family, form, before, constant)
    in_vcc = encoding == "VOPC" or (encoding == "VOP2" and "_co_" in name)
    got = after.exec.value if "cmpx" in name else after.mask(VCC if in_vcc else SCALAR_RESULT)
    if ("cmp" in name or "_co_" in name or encoding == "VOP3SD") and got != mask:
        return f"mask {got:#x}, not {mask:#x}"
    if "cmp" in name:
        return ""
    if name.startswith("v_s_"):
        return compared(name, family, results[0], after.scalar(SCALAR_RESULT), before.scalar(4), 0)
    for lane, right in enumerate(results):
        is_active = before.exec.value >> lane & 1
        wanted = right if is_active else before.vector(RESULT, lane)
        operands = before.vector(0, lane), before.vector(2, lane)
        if told := compared(name if is_active else "v_mov_b64", family, wanted, after.vector(RESULT, lane), *operands):
            return f"lane {lane}: {told}"
    return ""


def width_of(name: str) -> int:
    if (
        re.search(r"_(b64|u64|i64|f64)$|_mad_(co_)?[ui]64|v_pk_\w+_f32$|v_pk_mov", name)
        and "s_cmp" not in name
        and not re.search("i32_b64|i32_u64", name)
    ):
        return 64
    return 32


def compared(name: str, family: str, right: int, got: int, a: int, b: int) -> str:
    width = width_of(name)
    if re.search(r"(bcnt1|ff1|flbit|ctz|clz|bcnt)_", name):
        width = 32
    if re.match(r"s_(?!cvt_f32)\w+_f16(_f32)?$", name) and "pk" not in name:
        width = 16  # the other half becomes zero, which the text does not say
    right, got = right & (1 << width) - 1, got & (1 << width) - 1
    is_half = (
        name.startswith("v_")
        and name.endswith("16")
        and not re.search(r"pk_|pack|mad_[ui]32|cvt_f32|mix|bf16|sad|dot\d(c|acc)?_[fiu]32", name)
    ) or name.startswith("v_cvt_f16")
    if is_half and family == "cdna":
        right &= 0xFFFF  # the other half becomes zero, which the text does not say
    if right == got:
        return ""
    parts = (
        16
        if width == 16 or is_half or re.search(r"pk_\w+_f16|f16_f32|mix(lo|hi)", name)
        else 64
        if "f64" in name
        else 32
    )
    if name.startswith("v_frexp_exp") and a & EXPONENTS[name[-3:]] == 0:
        return ""  # the text has no exponent of zero and of subnormal numbers
    if re.search("f(16|32|64)", name) and all(
        same_float(right >> k & (1 << parts) - 1, got >> k & (1 << parts) - 1, parts, name, a)
        for k in range(0, width, parts)
    ):
        return ""
    return f"{got:#x}, not {right:#x}, of {a:#x} and {b:#x}"


def same_float(right: int, got: int, width: int, name: str, source: int) -> bool:
    x, y = Value(right, width, "f").number, Value(got, width, "f").number
    if x != x and y != y:
        return True
    if right == got:
        return True
    if "_rndne_" in name and x == y == 0:
        return True  # IEEE 754 keeps the sign, which the text does not say
    if not ROUNDED.search(name):
        return False
    if width == 16:
        return math.isfinite(x) and abs(float(x) - float(y)) <= 2.0**-10 * abs(float(x))
    if source & 0x7F800000 == 0:
        return True  # a subnormal number is taken as zero, which the text does not say
    small = 2.0**-126  # what these units take and give as zero
    near = math.isfinite(x) and math.isfinite(y) and abs(float(x) - float(y)) <= 2.0**-23 * abs(float(x))
    return near or (abs(x) < 2 * small and abs(y) < 2 * small) or (abs(x) > 1e38 and abs(y) > 1e38)


def main() -> None:
    """Compare the opcodes of a family; with a second word those whose names it is found in."""
    for family in sys.argv[1:2] or FAMILIES:
        for form, code, constant in forms(family):
            name = form.split()[1]
            if name in NOTHING or common(name) not in library.handler_names() or not re.search(SOME, form):
                continue
            try:
                result = told(family, form, code, constant)
            except (NotCovered, UnknownInstructionError) as error:
                result = f"not covered: {error}"
            except Exception as error:
                result = f"not covered: {type(error).__name__}: {error}"
            print(json.dumps([family, form, result]))


if __name__ == "__main__":
    sys.exit(main())
