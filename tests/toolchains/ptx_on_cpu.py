"""Run PTX on the CPU: each instruction becomes a statement of C++, and each thread of a block a thread of the system.

It knows the instructions that the kernels of the backend ``cute`` have, and stops at any other. What ptxas would make
of them is not looked at.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

_HEAD = r"""
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>
typedef uint16_t b16; typedef uint32_t b32; typedef uint64_t b64;
typedef int32_t s32; typedef int64_t s64; typedef uint32_t u32; typedef uint64_t u64;
typedef int16_t s16; typedef uint16_t u16; typedef float f32; typedef double f64;
template <class T, class F> static inline T as(F from) {
  T to{}; memcpy(&to, &from, sizeof to < sizeof from ? sizeof to : sizeof from); return to;
}
static inline f32 from_bf16(b16 bits) { return as<f32>(b32(bits) << 16); }
static inline b16 to_bf16(f32 value) { b32 bits = as<b32>(value); return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16; }
static inline f32 from_f16(b16 bits) { return (f32)as<_Float16>(bits); }
static inline b16 to_f16(f32 value) { return as<b16>((_Float16)value); }
static inline f32 saturated(f32 value) { return value < 0 ? 0 : value > 1 ? 1 : value; }
static inline f32 add_down(f32 a, f32 b, f32 c) {
  const f64 exact = (f64)a * b + c; f32 near = (f32)exact; return near > exact ? nextafterf(near, -INFINITY) : near;
}
struct Block {
  std::barrier<> all{128};
  std::vector<std::barrier<>*> warps; b32 lanes[128]; alignas(16) char shared[1 << 20]; u32 x, y, z;
  Block() { for (int i = 0; i < 4; ++i) warps.push_back(new std::barrier<>(32)); }
  ~Block() { for (auto* warp : warps) delete warp; }
  b32 exchange(u32 thread, b32 value, u32 apart) {
    lanes[thread] = value; warps[thread / 32]->arrive_and_wait();
    const b32 other = lanes[thread ^ apart]; warps[thread / 32]->arrive_and_wait(); return other;
  }
};
"""

_TAIL = r"""
extern "C" void launch(u32 x, u32 y, u32 z, const u64* params) {
  for (u32 k = 0; k < z; ++k) for (u32 j = 0; j < y; ++j) for (u32 i = 0; i < x; ++i) {
    auto* block = new Block; block->x = i; block->y = j; block->z = k;
    std::vector<std::thread> threads;
    for (u32 t = 0; t < 128; ++t) threads.emplace_back([=] { run(*block, t, params); block->all.arrive_and_drop(); });
    for (auto& thread : threads) thread.join();
    delete block;
  }
}
"""

_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "div": "/"}
_COMPARE = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}
_WIDER = {"s32": "s64", "u32": "u64", "s16": "s32", "u16": "u32"}
_SPECIAL = {"%tid.x": "thread", "%ctaid.x": "block.x", "%ctaid.y": "block.y", "%ctaid.z": "block.z"}


def compile_for_cpu(ptx: str, folder: Path) -> ctypes.CDLL:
    """Return a library with a function ``launch``, made of the only kernel of the text."""
    source = folder / "kernel.cc"
    source.write_text(_HEAD + _function(ptx) + _TAIL)
    library = folder / "kernel.so"
    flags = [
        "-std=c++20",
        "-O1",
        "-fno-strict-aliasing",
        "-ffp-contract=off",
        "-mfma",
        "-shared",
        "-fPIC",
        "-pthread",
        "-w",
    ]
    subprocess.run(["g++", *flags, source, "-o", library], check=True)
    return ctypes.CDLL(str(library))


def launch(library: ctypes.CDLL, grid: tuple[int, int, int], arguments: Sequence[int]) -> None:
    """Run the kernel over a grid; an argument is an address or a number."""
    library.launch(*map(ctypes.c_uint32, grid), (ctypes.c_uint64 * len(arguments))(*arguments))


def _function(ptx: str) -> str:
    body = ptx[ptx.index("{", ptx.index(".entry")) + 1 : ptx.rindex("}")]
    parameters = re.findall(
        r"\.param \.\w+ .*?(\w+)(?:,|\s*\))", ptx[ptx.index(".entry") : ptx.index("{", ptx.index(".entry"))]
    )
    lines = ["static void run(Block& block, u32 thread, const u64* params) {"]
    declared, code, used = [], [], 0
    for kind, name, count in re.findall(r"\.reg \.(\w+) \t?%(\w+)<(\d+)>;", body):
        type_ = "bool" if kind == "pred" else kind
        declared += [f"{type_} {name}{i} = 0;" for i in range(1, int(count))]
    # A dollar is part of a name for g++, too. A variable without a length is one element.
    for bits, name, size in re.findall(r"\.shared [^;]*?\.[bufs](\d+) ([\w$]+)(?:\[(\d+)\])?;", ptx):
        used = -(-used // 16) * 16
        declared.append(f"const u32 {name} = {used};")
        used += int(size or 1) * int(bits) // 8
    text = re.sub(r"//[^\n]*", "", body)
    for statement in re.findall(r"\$\w+:|[^;{}:]*(?:\{[^}]*\}[^;{}]*)*;", text):
        words = statement.strip().rstrip(";").strip()
        if words.endswith(":"):
            code.append(f"{words[1:-1]}:;")
        elif words and not words.startswith((".", "//")):
            code.append(_statement(words, parameters))
    return "\n".join([*lines, *declared, *code, "}"])


def _statement(words: str, parameters: Sequence[str]) -> str:
    condition = ""
    if match := re.match(r"@(!?)%(\w+)\s+", words):
        condition = f"if ({match[1]}{match[2]}) "
        words = words[match.end() :]
    opcode, _, rest = words.partition("\t") if "\t" in words else words.partition(" ")
    operands = [part.strip() for part in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", rest) if part.strip()]
    return f"{condition}{{ {_meaning(opcode.strip().split('.'), operands, parameters)} }}"


def _value(word: str) -> str:
    if word in _SPECIAL:
        return _SPECIAL[word]
    if match := re.fullmatch(r"0f([0-9A-F]{8})", word):
        return f"0x{match[1]}u"
    return word.lstrip("%")


def _meaning(op: list[str], operands: list[str], parameters: Sequence[str]) -> str:
    name, kind = op[0], op[-1]
    if name in ("ret", "exit"):
        return "return;"
    if name == "bra":
        return f"goto {operands[0][1:]};"
    if name in ("bar", "barrier"):
        return "block.all.arrive_and_wait();"
    if name in ("ld", "st"):
        return _access(op, operands, parameters)
    values = [_value(word) for word in operands]
    to, first = values[0], values[1]
    if name == "mov" or name == "cvta":
        return f"{to} = {first};"
    if name == "shfl" and op[2] == "bfly":
        return f"{to} = block.exchange(thread, {first}, {values[2]});"
    if name == "cvt":
        return _converted(op, to, values[1:])
    # A decimal number has its value, with its sign, in any width.
    numbers = re.compile(r"-?\d+")
    arguments = [f"({kind})({v})" if numbers.fullmatch(v) else f"as<{kind}>({v})" for v in values[1:]]
    if name == "setp":
        return f"{to} = {arguments[0]} {_COMPARE[op[1].removesuffix('u')]} {arguments[1]};"
    if name == "selp":
        return f"{to} = {values[3]} ? {first} : {values[2]};"
    if name in ("mul", "mad") and "wide" in op:
        product = f"({_WIDER[kind]}){arguments[0]} * ({_WIDER[kind]}){arguments[1]}"
        return f"{to} = {product}{f' + as<{_WIDER[kind]}>({values[3]})' if name == 'mad' else ''};"
    if kind == "pred":
        return f"{to} = {first} {_OPERATORS[name]} {values[2]};" if len(values) > 2 else f"{to} = !{first};"
    result = _result(op, arguments, values)
    return f"{to} = as<decltype({to})>(({kind})({result}));"


def _result(op: list[str], arguments: list[str], values: list[str]) -> str:
    name, kind = op[0], op[-1]
    unary = {
        "neg": "-{}",
        "not": "~{}",
        "sqrt": "sqrtf({})",
        "rcp": "1.0f / {}",
        "ex2": "exp2f({})",
        "abs": "fabsf({})",
    }
    unary["rsqrt"] = "1.0f / sqrtf({})"
    if name in unary:
        return unary[name].format(arguments[0])
    if name == "fma":
        return f"{'add_down' if 'rm' in op else 'fmaf'}({', '.join(arguments)})"
    if name == "mad":
        return f"{arguments[0]} * {arguments[1]} + {arguments[2]}"
    if name in ("min", "max"):
        sign = "<" if name == "min" else ">"
        return f"{arguments[0]} {sign} {arguments[1]} ? {arguments[0]} : {arguments[1]}"
    if name in ("shl", "shr"):
        operator = "<<" if name == "shl" else ">>"
        return f"as<u32>({values[2]}) > {8 * 8 - 1} ? 0 : {arguments[0]} {operator} as<u32>({values[2]})"
    if name == "rem":
        return f"{arguments[0]} % {arguments[1]}"
    if name in _OPERATORS and not (name == "mul" and "hi" in op):
        return f"{arguments[0]} {_OPERATORS[name]} {arguments[1]}"
    if name == "mul":
        return f"((__int128){arguments[0]} * {arguments[1]}) >> {kind[1:]}"
    raise NotImplementedError(f"PTX: {'.'.join(op)}")


def _converted(op: list[str], to: str, values: list[str]) -> str:
    target, source = op[-2:]
    value = values[0]
    halves = {"bf16": ("from_bf16({})", "to_bf16({})"), "f16": ("from_f16({})", "to_f16({})")}
    if target in ("bf16x2", "f16x2"):  # the first operand becomes the upper half
        upper, lower = (halves[target[:-2]][1].format(f"as<f32>({each})") for each in values)
        return f"{to} = b32({upper}) << 16 | {lower};"
    if source in halves:
        return f"{to} = as<b32>({halves[source][0].format(value)});"
    if target in halves:
        return f"{to} = {halves[target][1].format(f'as<f32>({value})')};"
    result = f"as<{source}>({value})"
    if "sat" in op:
        result = f"saturated({result})"
    return f"{to} = as<decltype({to})>(({target}){result});"


def _access(op: list[str], operands: list[str], parameters: Sequence[str]) -> str:
    kind = op[-1]
    place, data = (operands[1], operands[0]) if op[0] == "ld" else (operands[0], operands[1])
    inside = place[1:-1]
    if "param" in op:
        return f"{_value(data)} = ({kind})params[{parameters.index(inside)}];"
    base, _, offset = inside.partition("+")
    start = f"({'block.shared + ' if 'shared' in op else '(char*)'}{_value(base.strip())} + {offset.strip() or 0})"
    items = [_value(item.strip()) for item in data.strip("{}").split(",")]
    cells = [f"(({kind}*){start})[{i}]" for i in range(len(items))]
    if op[0] == "ld":
        return " ".join(f"{item} = as<decltype({item})>({cell});" for item, cell in zip(items, cells, strict=True))
    return " ".join(f"{cell} = as<{kind}>({item});" for item, cell in zip(items, cells, strict=True))
