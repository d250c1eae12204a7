"""Limits of a block of threads. TVM compiles scripts that no GPU can run, and drops code that is bound to no thread."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import tvm

from mhc.toolchain.webgpu import SHARED_BYTES

# What a block gets on all of these GPUs without special settings; an Apple GPU has less shared memory.
MAX_THREADS = 1024
MAX_SHARED_BYTES = {
    "cuda": 48 * 1024,
    "rocm": 48 * 1024,
    "opencl": 48 * 1024,
    "metal": 32 * 1024,
    "webgpu": SHARED_BYTES,
}


def check(script: tvm.tirx.PrimFunc, kind: str) -> None:
    """Check that a GPU of TVM's ``kind`` can run a block of the script.

    Raises:
        ValueError: nothing is bound to threads, which makes only host code; one axis has two extents, which goes out
            of bounds; or a block has too many threads or too much shared memory.
    """
    name = script.attrs["global_symbol"]
    nodes = list(_nodes(script.body))
    extents: dict[str, set[str]] = {}
    for node in nodes:
        if isinstance(node, tvm.tirx.AttrStmt) and node.attr_key == "thread_extent":
            extents.setdefault(node.node.thread_tag, set()).add(str(node.value))
    unequal = [f"{axis} to {' and '.join(sorted(values))}" for axis, values in extents.items() if len(values) > 1]
    if unequal:
        raise ValueError(f"{name} binds {', '.join(unequal)}")
    axes = [values.pop() for axis, values in extents.items() if axis.startswith("threadIdx.")]
    if not axes:
        raise ValueError(f"{name} binds nothing to threads")
    if (threads := prod(map(int, axes))) > MAX_THREADS:
        raise ValueError(f"{name} has {threads} threads in a block; the limit is {MAX_THREADS}")
    buffers = [node.buffer for node in nodes if isinstance(node, tvm.tirx.AllocBuffer)]
    sizes = [prod(map(int, b.shape)) * tvm.DataType(str(b.dtype)).bits // 8 for b in buffers if b.scope() == "shared"]
    shared = sum(sizes)
    limit = MAX_SHARED_BYTES[kind]
    if shared > limit:
        raise ValueError(f"{name} has {shared} bytes of shared memory in a block; the limit is {limit}")


def _nodes(statement: Any) -> Iterator[Any]:
    """Yield a statement and all statements in it."""
    yield statement
    for part in ("body", "then_case", "else_case"):
        if (inner := getattr(statement, part, None)) is not None:
            yield from _nodes(inner)
    for inner in getattr(statement, "seq", ()):
        yield from _nodes(inner)
