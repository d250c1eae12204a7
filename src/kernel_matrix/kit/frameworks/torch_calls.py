"""The operators of PyTorch that a kernel calls."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import torch
from torch.profiler import ExecutionTraceObserver

ALLOCATIONS = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
# Operators that move values and compute nothing.
MOVES = set(
    """
    alias as_strided clone contiguous copy_ detach expand fill_ full full_like is_pinned lift_fresh new_full
    new_ones new_zeros ones ones_like permute record_stream reshape resize_ select set_ slice split
    split_with_sizes squeeze t _to_copy transpose unbind _unsafe_view unsqueeze view zero_ zeros zeros_like
    """.split()  # noqa: SIM905  # a list of literals is one name a line
)


@contextlib.contextmanager
def noted() -> Iterator[set[str]]:
    """Note the operators that compute, as far as they are called before the block ends, in any thread of the process.

    PyTorch's observer sees each call where it is made, also in C++. No mode of a thread hides one from it. The set is
    filled when the block ends.

    Raises:
        RuntimeError: a child that has the same files open has called operators too.
    """
    operators: set[str] = set()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        with _quietly():
            observer = ExecutionTraceObserver().register_callback(file.name)
            observer.start()
        try:
            yield operators
        finally:
            with _quietly():
                observer.unregister_callback()
        try:
            nodes = json.load(file)["nodes"]
        except ValueError:
            raise RuntimeError("a child of the kernel's process has called PyTorch's operators too") from None
    operators |= {_operator(node).removeprefix("aten::") for node in nodes} - {"", *ALLOCATIONS, *MOVES}


def _operator(node: dict[str, Any]) -> str:
    """Return the operator that a node of the trace is; none where others do its work, which have nodes of their own."""
    schema = next((str(field["value"]) for field in node["attrs"] if field["name"] == "op_schema"), "")
    name = schema.partition("(")[0]
    made_of_others = name and torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
    return "" if made_of_others else name.partition(".")[0]


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Keep this process from writing errors: the observer writes a line whenever it begins and ends."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
