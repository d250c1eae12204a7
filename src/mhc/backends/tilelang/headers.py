"""The headers that a kernel of TileLang needs, in place of all that TileLang includes in every kernel.

nvcc needs 1.5 of 2 s to read TileLang's templates, for each kernel and each architecture. Most kernels use nothing of
them but two number types, which CUTLASS has in headers of their own. The instructions are the same. What the
headers add to a cubin of 0.1.8 are constants that nothing reads.

g++ needs 0.6 of 0.8 s to read the library of ``half`` for a CPU's kernel, and TileLang's C has fp16 in integers. The
machine code is the same.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

# The types that TileLang's templates take from CUTLASS, and where CUTLASS has them.
_TYPES = {"bfloat16_t": "cutlass/bfloat16.h", "half_t": "cutlass/half.h"}

# Functions that CUDA has by itself, for arguments of CUDA's own types. The templates give other meanings to names such
# as hexp, and add overloads for half_t and bfloat16_t: a kernel that calls anything else gets all headers.
_CUDA_FUNCTIONS = {
    *("expf", "sqrtf", "rsqrtf", "__syncthreads", "__align__", "__launch_bounds__"),
    *("make_uint2", "make_uint4", "make_float2", "make_float4"),
}
_FOR_NUMBERS = {"min", "max"}  # CUDA's for int and float; the templates' for the two types
_KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "alignas", "defined", "_tl_orig_alignas"}

_INCLUDE = re.compile(r"^#include <tl_templates/cuda/\w+\.(?:h|cuh)>\n", re.MULTILINE)
_CALL = re.compile(r"\b(\w+)\s*\(")
_CPU_INCLUDE = re.compile(r"^#include <tl_templates/cpp/\w+\.h>\n", re.MULTILINE)
_FETCH = re.compile(r"\bmhc_fetch_(\w+)\(")
_C_TYPES = {"float32": "float", "uint16": "unsigned short"}
_KERNEL = re.compile(r"\b__global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(")


def with_few_headers(source: str, templates: Path) -> str | None:
    """Return the CUDA ``source`` with no more headers than it needs; None if it may need all of the templates.

    ``templates`` is TileLang's folder of them. A function that a kernel calls is taken from there.
    """
    code = _INCLUDE.sub("", source)
    types = [name for name in _TYPES if re.search(rf"\b{name}\b", code)]
    calls = set(_CALL.findall(code)) - _KEYWORDS - _CUDA_FUNCTIONS - _FOR_NUMBERS - set(types)
    functions = [_definitions(templates, name, tuple(types)) for name in sorted(calls - set(_KERNEL.findall(code)))]
    if "::" in code or not all(functions) or (types and _takes_type_of_cutlass(code)):
        return None
    headers = [f"#include <{_TYPES[name]}>\nusing cutlass::{name};\n" for name in types]
    return "".join(["#include <cstdint>\n", *headers, *functions, code])


def _takes_type_of_cutlass(code: str) -> bool:
    """Return whether a call of ``min`` or ``max`` may have an argument of these types: it then names one."""
    arguments = re.findall(rf"\b(?:{'|'.join(sorted(_FOR_NUMBERS))})\(([^;]*)", code)
    return any(re.search(rf"\b(?:{'|'.join(_TYPES)})\b", text) for text in arguments)


@cache
def _definitions(templates: Path, name: str, types: tuple[str, ...]) -> str:
    """Return the templates' definitions of a function for arguments of ``types``; empty if there is none."""
    text = (templates / "tl_templates" / "cuda" / "common.h").read_text(encoding="utf-8")
    definition = re.compile(
        rf"^TL_DEVICE (\w+ {name}\((?:const )?(\w+)[^{{;]*\) {{\n(?:  [^\n]*\n)*}}\n)", re.MULTILINE
    )
    return "".join(f"__forceinline__ __device__ {body}" for body, type_ in definition.findall(text) if type_ in types)


def without_half(source: str, templates: Path) -> str | None:
    """Return the C++ ``source`` for CPUs with TileLang's header less the type ``half``; None if it may need more.

    ``templates`` is TileLang's folder of them.
    """
    code = _CPU_INCLUDE.sub("", source)
    if "#include" in code or re.search(r"\bhalf", code):
        return None
    lines = (templates / "tl_templates" / "cpp" / "common.h").read_text(encoding="utf-8").splitlines(keepends=True)
    rest = [line for line in lines if "half" not in line and "#pragma once" not in line]
    # The header of 0.1.8 has the integers only by the library of half.
    return "".join(["#include <stdint.h>\n#include <string.h>\n", *rest, code])


def with_fetch(source: str) -> str:
    """Return the C++ ``source`` with what :func:`mhc.backends.tilelang.cpu.fetch` calls, if it does.

    TileLang declares each function that a kernel calls, and compilers refuse a declaration of their own prefetch.
    """
    functions = (
        f'extern "C" {{ static inline void* mhc_fetch_{name}({_C_TYPES[name]}* place) '
        "{ __builtin_prefetch(place); return nullptr; } }\n"
        for name in sorted(set(_FETCH.findall(source)))
    )
    return "".join([*functions, source])
