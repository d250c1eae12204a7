"""Run passes on equal programs once: targets of one kind have most of what TileLang makes of a program in common.

TileLang 0.1.15 asks a theorem prover in many passes, which takes half of the time in which it lowers a kernel. The
passes that are named here read the program and the settings of the pass, and not the target that the program carries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import tilelang
from tilelang import tvm

_tir = tvm.tirx if hasattr(tvm, "tirx") else tvm.tir  # its name changed in 0.1.10
_s_tir = tvm.s_tir if hasattr(tvm, "s_tir") else _tir

# Passes of the pipelines that look at the program alone. Not every version has each.
_PASSES = (
    "ConfigIndexBitwidth",
    "FlattenBuffer",
    "HoistIfThenElse",
    "LegalizeNegativeIndex",
    "LegalizeSafeMemoryAccess",
    "PlanAndUpdateBufferAllocationLocation",
    "RemoveNoOp",
    "RenormalizeSplitPattern",
    "Simplify",
)

_before_and_after: dict[tuple[Any, ...], list[tuple[Any, Any]]] = {}


@contextmanager
def simplified_once() -> Iterator[None]:
    """Let TileLang's pipeline take what these passes made of an equal program before, while the block runs."""
    places = [
        (place, name, getattr(place, name))
        for place in (tilelang.transform, _tir.transform, _s_tir.transform)
        for name in _PASSES
        if hasattr(place, name)
    ]
    for place, name, make in places:
        setattr(place, name, partial(_remembering, make))
    try:
        yield
    finally:
        for place, name, make in places:
            setattr(place, name, make)


def _remembering(make: Callable[..., Any], *arguments: Any, **options: Any) -> Callable[[Any], Any]:
    """Return the pass that ``make`` makes, as a function of a module that remembers its results."""

    def run(module: Any) -> Any:
        bare, targets = _without_targets(module)
        settings = str(tvm.transform.PassContext.current().config)
        key = (make, arguments, *options.items(), settings, tvm.ir.structural_hash(bare))
        known = _before_and_after.setdefault(key, [])
        result = next((after for before, after in known if tvm.ir.structural_equal(before, bare)), None)
        if result is None:
            result = make(*arguments, **options)(bare)
            known.append((bare, result))
        return _with_targets(result, targets)

    return run


def _without_targets(module: Any) -> tuple[Any, dict[str, Any]]:
    """Return the module with functions that name no target, and the target of each function that named one."""
    functions, targets = dict(module.functions.items()), {}
    for variable, function in functions.items():
        if function.attrs and "target" in function.attrs:
            targets[variable.name_hint] = function.attrs["target"]
            functions[variable] = function.without_attr("target")
    return tvm.IRModule(functions, attrs=module.attrs), targets


def _with_targets(module: Any, targets: dict[str, Any]) -> Any:
    functions = dict(module.functions.items())
    for variable, function in functions.items():
        if variable.name_hint in targets:
            functions[variable] = function.with_attr("target", targets[variable.name_hint])
    return tvm.IRModule(functions, attrs=module.attrs)
