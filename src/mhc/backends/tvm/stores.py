"""Stores that go past the caches, for results on x86 that are larger than the last cache.

An ordinary store first reads the line that it writes. A result that no cache can keep gains nothing by that. TVM has no
word for another store; LLVM has, so a script brings functions of LLVM along, which it inlines.

Such a store has to fill its line soon: a line in two parts, with much between them, costs more than it saves.
"""

# No postponed annotations here: TVM reads a script's annotations as its parameters.

from types import SimpleNamespace
from typing import Any

import torch
from tvm.script import tirx as T
from tvm.target import Target
from tvm.target import codegen as llvm

from mhc.backends.tvm.vectors import Row, name_of, narrow, registers

# Bytes of a result that goes past the caches: about the size of a last-level cache, which what was read has filled too.
_LARGE = 32 << 20

_LINE_BYTES = 64  # of a cache

_CODE = """
define i32 @mhc_store(ptr %to, ptr %from, i1 %past) {{
  %value = load <{lanes} x float>, ptr %from, align 4
  %address = ptrtoint ptr %to to i64
  %offset = and i64 %address, {last}
  %aligned = icmp eq i64 %offset, 0
  %both = and i1 %past, %aligned
  br i1 %both, label %streamed, label %plain
streamed:
  store <{lanes} x float> %value, ptr %to, align {bytes}, !nontemporal !0
  ret i32 0
plain:
  store <{lanes} x float> %value, ptr %to, align 4
  ret i32 0
}}

define i32 @mhc_stored(i1 %past) {{
  br i1 %past, label %wait, label %end
wait:
  fence seq_cst
  br label %end
end:
  ret i32 0
}}

!0 = !{{i32 1}}
"""


def stores(row: Row, dtype: torch.dtype, target: Target, *, in_order: bool = False) -> SimpleNamespace:
    """Return what a script needs for a result of ``dtype`` that it writes a vector of ``row`` at a time.

    ``in_order`` is whether it writes the vectors of a row one after another, with nothing else between them.

    ``code`` is LLVM's, for ``pragma_import_llvm``. ``past(elements)`` is whether a result of so many elements goes past
    the caches. The macro ``put(result, token, column, vectors, i, past)`` stores row ``i`` of an fp32 buffer, and
    ``end(past)`` waits until other threads see what this one has stored. Where ``possible`` is False, ``put`` always
    stores as usual.
    """
    size = row.lanes * 4
    # The vectors of a short row are no whole registers.
    whole = row.lanes == registers(target)[0] and llvm.llvm_cpu_has_features("avx", target)
    possible = dtype == torch.float32 and whole and (in_order or size == _LINE_BYTES)
    element = name_of(dtype)

    @T.macro
    def put(result, token, column, vectors, i, past):
        if possible:
            T.evaluate(
                T.call_extern(
                    "int32", "mhc_store", T.address_of(result[token, column]), T.address_of(vectors[i, 0]), past
                )
            )
        else:
            for j in T.vectorized(row.lanes):
                result[token, column + j] = narrow(element, vectors[i, j])

    @T.macro
    def end(past):
        if possible:
            T.evaluate(T.call_extern("int32", "mhc_stored", past))

    def past(elements: Any) -> Any:
        return elements * T.int64(4) >= T.int64(_LARGE) if possible else T.bool(False)

    code = _CODE.format(lanes=row.lanes, bytes=size, last=size - 1)
    return SimpleNamespace(possible=possible, code=code, past=past, put=put, end=end)
