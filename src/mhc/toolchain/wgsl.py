"""WGSL as TVM and TileLang write it: what a launch must know of it, and a storage form for bf16.

WGSL has no type of 16 bits but ``f16``. A bf16 tensor is stored as 32-bit words of two elements each: the kernel is
made for fp32 elements, and each of its accesses to such a tensor widens a half of a word, or rounds to it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

_BINDING = re.compile(
    r"@group\(0\) @binding\((?P<index>\d+)\) var<storage, (?P<access>read|read_write)> (?P<variable>\w+) : "
    r"array<(?P<element>[\w<>]+)>;"
)
_UNIFORM = re.compile(r"@group\(0\) @binding\((\d+)\) var<uniform> podArgs : PODArgs;")
_FIELDS = re.compile(r"struct PODArgs \{(.*?)\}", re.DOTALL)
_ENTRY = re.compile(r"@compute @workgroup_size\([^)]*\)\s*fn (\w+)\(")
# TVM calls a loop variable `_` of Python's `__1`. WGSL keeps names that begin with two underscores for itself.
_RESERVED = re.compile(r"\b__(?=\w)")

# The field of the uniform that the generators add. A block whose number is larger than it returns at once.
LAST_BLOCK = "packGridDimX"

# Two elements of a word are often two threads' own: the one that stores leaves the bits of the other as they are.
_HALVES = """
fn mhc_wide(word: u32, odd: bool) -> f32 {
  return bitcast<f32>(select(word << 16u, word & 0xffff0000u, odd));
}
fn mhc_narrow(value: f32) -> u32 {
  let bits = bitcast<u32>(value);
  let rounded = (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
  return select(rounded, (bits >> 16u) | 0x40u, (bits & 0x7fffffffu) > 0x7f800000u);
}
"""
_READ = "fn {load}(i: i32) -> f32 {{ return mhc_wide({word}, (i & 1i) == 1i); }}\n"
_WRITE = """fn {store}(i: i32, value: f32) {{
  let shift = u32(i & 1i) * 16u;
  atomicAnd(&{variable}[i >> 1u], 0xffff0000u >> shift);
  atomicOr(&{variable}[i >> 1u], mhc_narrow(value) << shift);
}}
"""


@dataclass(frozen=True)
class Binding:
    """A storage buffer of a kernel: its tensor, its number, and whether the kernel writes it."""

    name: str
    index: int
    written: bool


@dataclass(frozen=True)
class Shader:
    """A kernel in WGSL: its text, its entry point, its buffers, and its uniform's number and fields in order."""

    source: str
    entry: str
    bindings: tuple[Binding, ...]
    uniform: int
    fields: tuple[str, ...]


def shader_of(source: str, halves: Collection[str] = ()) -> Shader:
    """Return the kernel of ``source``; the tensors of the names ``halves`` are stored as two elements in a word.

    Raises:
        ValueError: the text is not as TVM writes it, or it accesses a tensor of ``halves`` in an unknown way.
    """
    source = _RESERVED.sub("mhc__", source)
    entries, uniform, fields = _ENTRY.findall(source), _UNIFORM.search(source), _FIELDS.search(source)
    if len(entries) != 1 or not uniform or not fields:
        raise ValueError(
            f"the WGSL has {len(entries)} kernels and {'a' if uniform else 'no'} uniform; one each is known"
        )
    variables = list(_BINDING.finditer(source))
    bindings = tuple(
        Binding(_tensor(match["variable"]), int(match["index"]), match["access"] == "read_write") for match in variables
    )
    for match in variables:
        if _tensor(match["variable"]) in halves:
            source = _in_halves(source, match)
    if any(binding.name in halves for binding in bindings):
        source += _HALVES
    names = tuple(re.findall(r"(\w+): [iu]32", fields[1]))
    return Shader(source, entries[0], bindings, int(uniform[1]), names)


def _tensor(variable: str) -> str:
    """Return the tensor that a variable holds: TVM adds ``_ptr`` to its name."""
    return variable.removesuffix("_ptr")


def _in_halves(source: str, binding: re.Match[str]) -> str:
    """Return the text with a binding of fp32 elements as one of words, and its accesses through functions."""
    variable, element, written = binding["variable"], binding["element"], binding["access"] == "read_write"
    lanes = {"f32": 1, "vec2<f32>": 2, "vec4<f32>": 4}.get(element)
    if lanes is None:
        raise ValueError(f"{variable} has elements of {element}; fp32 and vectors of it are known")
    load, store = f"mhc_load_{variable}", f"mhc_store_{variable}"
    word = f"atomicLoad(&{variable}[i >> 1u])" if written else f"{variable}[i >> 1u]"
    functions = _READ.format(load=load, word=word) + (_WRITE.format(store=store, variable=variable) if written else "")
    if lanes > 1:
        parts = ", ".join(f"{load}({lanes}i * i + {lane}i)" for lane in range(lanes))
        functions += f"fn {load}_vector(i: i32) -> {element} {{ return {element}({parts}); }}\n"
        calls = " ".join(f"{store}({lanes}i * i + {lane}i, value[{lane}]);" for lane in range(lanes))
        functions += f"fn {store}_vector(i: i32, value: {element}) {{ {calls} }}\n" if written else ""
        load, store = f"{load}_vector", f"{store}_vector"
    words = "atomic<u32>" if written else "u32"
    declaration = binding[0].replace(f"array<{element}>", f"array<{words}>")
    before, after = source.split(binding[0])
    return before + declaration + _through_functions(after, variable, load, store) + functions


def _through_functions(text: str, variable: str, load: str, store: str) -> str:
    """Return the text with ``variable[i]`` as a call of ``load``, and ``variable[i] = value;`` as one of ``store``."""
    access = re.search(rf"\b{variable}\[", text)
    if access is None:
        return text
    begin, end = access.end(), _closing(text, access.end())
    index = _through_functions(text[begin:end], variable, load, store)
    head, tail = text[: access.start()], text[end + 1 :]
    if assigned := re.match(r" = (?!=)(.*);\n", tail):
        value = _through_functions(assigned[1], variable, load, store)
        rest = _through_functions(tail[assigned.end() :], variable, load, store)
        return f"{head}{store}({index}, {value});\n{rest}"
    if re.match(r"(\[[^]]*\]|\.\w+)? [-+*/]?= ", tail):
        raise ValueError(f"{variable} is written in a way that is not known: {text[access.start() : end + 40]!r}")
    return f"{head}{load}({index}){_through_functions(tail, variable, load, store)}"


def _closing(text: str, begin: int) -> int:
    """Return where the bracket is closed that is open at ``begin``."""
    depth = 1
    for place in range(begin, len(text)):
        depth += {"[": 1, "]": -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise ValueError(f"a bracket is not closed: {text[begin : begin + 40]!r}")
