"""Translate arithmetic, logic, moves and conversions."""

from __future__ import annotations

import re

from gpu_emulators.nvidia.forms import form
from gpu_emulators.nvidia.operands import Registers, pair, unknown, vector
from gpu_emulators.nvidia.parse import Instruction
from gpu_emulators.nvidia.records import COPIES, PROPAGATES, Record

_INTEGER = r"[su](?:16|32|64)"
_ROUNDING = r"(?:\.(r[nzmp]))?"
_MODES = {"": 0, "rn": 0, "rz": 1, "rm": 2, "rp": 3, "rna": 4, "rni": 0, "rzi": 1, "rmi": 2, "rpi": 3}
_TYPES = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f16", "bf16", "f32", "f64", "tf32", "e4m3", "e5m2")
_FLOATS = _TYPES[_TYPES.index("f16") :]
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_COMBINED = {"and": 1, "or": 2, "xor": 3}


def plain(handler: str, one: Instruction, registers: Registers, *parameters: int, kind: str = "") -> Record:
    """Return the record of an instruction whose first operand is written and whose others are read."""
    to, *sources = one.operands
    numbers = [registers.number(word, kind) for word in sources]
    return Record(handler, [registers.number(to)], numbers, parameters, PROPAGATES)


@form(
    rf"(add|sub|min|max|div|rem|neg|abs)\.({_INTEGER})",
    rf"(mul|mad)\.(?:lo|hi|wide)\.({_INTEGER})",
    r"(and|or|xor|not|cnot|shl|popc|clz|brev|bfi)\.b(16|32|64)",
    r"(bfe)\.([su](?:32|64))",
    r"(bfind)\.([su](?:32|64))",
    r"(copysign)\.f(32|64)",
)
def integers(one: Instruction, _: re.Match[str], registers: Registers) -> Record:
    """Translate what has a handler of its own name."""
    return plain(one.opcode, one, registers)


@form(r"shr\.([busf])(16|32|64)")
def shift(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate a shift to the right; bits are shifted as numbers without a sign."""
    return plain(f"shr.{'s' if found[1] == 's' else 'u'}{found[2]}", one, registers)


@form(r"(add|sub|addc|subc)(\.cc)?\.[su](32|64)")
def carried(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate a sum with a carry, which goes through a predicate of its own."""
    takes = found[1].endswith("c")
    record = plain("add_carry", one, registers, int(found[3]), int(found[1].startswith("sub")), int(takes))
    carry = [registers.carry()]
    record.sources = [*record.sources, *(carry if takes else [])]
    record.to = [*record.to, *(carry if found[2] else [])]
    return record


@form(r"mad\.(lo|hi)(\.cc)\.u32", r"madc\.(lo|hi)(\.cc)?\.u32")
def product_carried(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate a product and a sum with a carry, of 32 bits."""
    takes = one.opcode.startswith("madc")
    record = plain("mad_carry", one, registers, int(found[1] == "hi"), int(takes))
    carry = [registers.carry()]
    record.sources = [*record.sources, *(carry if takes else [])]
    record.to = [*record.to, *(carry if found[2] else [])]
    return record


@form(r"shf\.([lr])\.(wrap|clamp)\.b32")
def funnel(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate a shift of two registers."""
    return plain("shf", one, registers, int(found[1] == "r"), int(found[2] == "clamp"))


@form(r"lop3\.b32")
def lop3(one: Instruction, _: re.Match[str], registers: Registers) -> Record:
    """Translate a logical operation by its table."""
    *operands, table = one.operands
    numbers = [registers.number(word) for word in operands]
    return Record("lop3", numbers[:1], numbers[1:], (int(table, 0),), PROPAGATES)


@form(r"prmt\.b32")
def prmt(one: Instruction, _: re.Match[str], registers: Registers) -> Record:
    """Translate a permutation of bytes."""
    return plain("prmt", one, registers)


@form(r"dp4a\.([su])32\.([su])32")
def dp4a(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate a sum of products of bytes."""
    return plain("dp4a", one, registers, int(found[1] == "s"), int(found[2] == "s"))


@form(r"(and|or|xor|not|mov)\.pred")
def predicates(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate logic of predicates; each may be negated."""
    to, *sources = one.operands
    negated = sum(1 << place for place, word in enumerate(sources) if word.startswith("!"))
    numbers = [registers.predicate(word.lstrip("!")) for word in sources]
    return Record(f"{found[1]}_pred", [registers.number(to)], numbers, (negated,), PROPAGATES)


@form(rf"(add|sub|mul|div|fma|mad|rcp|sqrt){_ROUNDING}(?:\.(approx|full))?(\.ftz)?(\.sat)?\.f32")
def singles(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate arithmetic in fp32."""
    name = "fma" if found[1] == "mad" else found[1]
    mode = _MODES[found[2] or ""]
    if (mode or found[4] or found[5]) or name in ("rcp", "sqrt"):
        flags = mode, int(bool(found[4])), int(bool(found[5]))
        return plain(f"{name}.f32.general", one, registers, *flags, kind="f32")
    return plain(f"{name}.f32", one, registers, kind="f32")


@form(r"(ex2|lg2|sin|cos|rsqrt)\.approx(\.ftz)?\.f32", r"(tanh)\.approx()\.f32", r"(neg|abs)(\.ftz)?\.f32")
def approximate(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate functions of one number."""
    if found[1] in ("neg", "abs") and not found[2]:
        return plain(one.opcode, one, registers, kind="f32")
    return plain(f"{found[1]}.f32.general", one, registers, 0, int(bool(found[2])), kind="f32")


@form(r"(min|max)\.xorsign\.abs\.f32")
def extremes_of_sizes(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate the smaller and the larger of two magnitudes, with a sign of its own."""
    return plain(f"{found[1]}.xorsign.f32", one, registers, kind="f32")


@form(r"(min|max)(\.ftz)?(\.NaN)?\.(f32|f64|f16|bf16)(x2)?")
def extremes(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate the smaller and the larger of two numbers."""
    if found[2] and found[4] != "f32":
        raise unknown(one)
    name = f"{found[1]}{'.nan' if found[3] else ''}"
    if found[5]:
        return _pair(f"{name}.{found[4]}", one, registers)
    if found[2]:
        return plain(f"{name}.f32.general", one, registers, 0, 1, kind="f32")
    return plain(f"{name}.{found[4]}", one, registers, kind=found[4])


@form(r"(rcp|rsqrt)\.approx\.ftz\.f64")
def first_approximation(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate what a division of doubles begins with."""
    return plain(f"{found[1]}.approx.f64", one, registers)


@form(r"(add|sub|mul|div|fma|rcp|sqrt)(?:\.rn)?\.f64", r"(neg|abs)\.f64")
def doubles(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate arithmetic in fp64."""
    return plain(f"{found[1]}.f64", one, registers, kind="f64")


@form(r"(add|sub|mul|fma)(?:\.rn)?(\.relu)?\.(f16|bf16)(x2)?", r"(neg|abs|ex2|tanh)(?:\.approx)?()\.(f16|bf16)(x2)?")
def narrow(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate arithmetic in fp16 and bf16, and in pairs of them."""
    if found[2] and (found[1] != "fma" or found[4]):
        raise unknown(one)
    if found[4]:
        return _pair(f"{found[1]}.{found[3]}", one, registers)
    return plain(f"{found[1]}.{found[3]}", one, registers, 0, 0, 0, int(bool(found[2])), kind=found[3])


def _pair(half: str, one: Instruction, registers: Registers) -> Record:
    """Return the record of two halves; what runs the half is put in by its name."""
    record = plain("pair", one, registers, 0, 0, 0, 0, 16)
    record.half = half
    record.half_operands = [registers.scratch(1) for _ in range(len(record.sources) + 1)]
    return record


@form(r"setp\.(\w+)(?:\.(and|or|xor))?\.([busf]\w*)")
def comparison(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate a comparison, which may be combined with a predicate."""
    name, kind = found[1], found[3].removesuffix("x2")
    is_pair = kind != found[3]
    to = [registers.number(word) for word in pair(one.operands[0])]
    sources = [registers.number(word, "b32" if is_pair else kind) for word in one.operands[1:3]]
    parameters = [0, 0, 16 if is_pair else 0]
    if found[2]:
        last = one.operands[3]
        sources.append(registers.predicate(last.lstrip("!")))
        parameters[:2] = [_COMBINED[found[2]], int(last.startswith("!"))]
    return Record(f"setp.{_UNSIGNED.get(name, name)}.{kind}", to, sources, parameters, PROPAGATES)


@form(r"selp\.[busf]\d+")
def choice(one: Instruction, _: re.Match[str], registers: Registers) -> Record:
    """Translate a choice between two values."""
    to, yes, no, condition = one.operands
    kind = one.parts[-1]
    sources = [registers.number(yes, kind), registers.number(no, kind), registers.predicate(condition)]
    return Record("selp", [registers.number(to)], sources)


@form(r"mov\.([busf])(16|32|64|128)")
def move(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate a move, also from and to vectors. It is a name to ptxas, so it waits for no product."""
    to, source = map(vector, one.operands)
    width = int(found[2])
    if len(to) == len(source) == 1:
        record = plain("mov", one, registers, kind=f"f{width}")
    else:
        numbers = [registers.number(part) for part in to], [registers.number(part) for part in source]
        record = Record(
            "unpack" if len(to) > 1 else "pack", *numbers, (width // max(len(to), len(source)),), PROPAGATES
        )
    record.flags |= COPIES
    return record


@form(r"cvt((?:\.(?:r[nzmp]i?|rna|ftz|sat|satfinite|relu))*)\.(\w+?)(x2)?\.(\w+?)(x2)?")
def conversion(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate a conversion, also of a pair."""
    words, (target, source) = found[1].split(".")[1:], (found[2], found[4])
    if target not in _TYPES or source not in _TYPES or ({target, source} & {"e4m3", "e5m2"} and not found[3]):
        raise unknown(one)
    rounding = next((word for word in words if word in _MODES), "")
    kind = "f32" if source == "tf32" else source
    rest = [word for word in words if word not in _MODES]
    if found[3] and not found[5] and len(one.operands) == 2:
        raise unknown(one)
    simple = f"cvt.{target}{found[3] or ''}.{source}"
    if not rest and rounding in ("", "rn") and simple in _SIMPLE and not found[5]:
        return plain(simple, one, registers, kind=kind)
    both = target in _FLOATS and source in _FLOATS
    handler = "cvt_pair" if found[3] else "cvt_whole" if both and rounding.endswith("i") else "cvt"
    flags = [int("sat" in rest or ("satfinite" in rest and target.startswith("e"))), int("ftz" in rest)]
    if "satfinite" in rest and not target.startswith("e"):
        raise unknown(one)
    if target.startswith("e"):
        flags[0] = 0
    places = _TYPES.index(target), _TYPES.index(source)
    return plain(handler, one, registers, *places, _MODES[rounding], *flags, int("relu" in rest), kind=kind)


_SIMPLE = ("cvt.f32.bf16", "cvt.f32.f16", "cvt.bf16.f32", "cvt.f16.f32", "cvt.bf16x2.f32", "cvt.f16x2.f32")


@form(r"createpolicy\..*")
def policy(one: Instruction, _: re.Match[str], registers: Registers) -> Record:
    """Translate what only concerns caches."""
    return Record("mov", [registers.number(one.operands[0])], [registers.constant(0)], flags=PROPAGATES)
