"""The kernel's process in a race: the kernel and plain code take turns, and then the kernel runs alone again.

Plain code is imported from the suite for the race, and forgotten after it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from kernel_matrix.job.inputs import Array
from kernel_matrix.job.race import race as race_in_turns
from kernel_matrix.job.worker import enter_stage
from kernel_matrix.kit import kernel_side
from kernel_matrix.kit.frameworks import framework
from kernel_matrix.kit.layouts import PACKED, UNWRITTEN

_raced: dict[str, Any] = {}  # what the last race has called


def race(
    arrays: Mapping[str, Array], *, kernel: Mapping[str, Any], asked: Sequence[str], plain: str
) -> kernel_side.Answer:
    """Time the kernel and plain code in turns; the arrays stay for :func:`again`."""
    frame, call = framework(kernel["framework"]), kernel_side.found(kernel)
    given = kernel_side.arrays_of(arrays, kernel, frame, 1, PACKED, True, UNWRITTEN)
    module, _, name = plain.partition(":")
    reference = getattr(importlib.import_module(module), name).described.reference
    device, leaves = kernel["device"], list(asked)
    incoming = {one: given.by_name[one] for one in kernel["incoming"]}

    def of_plain(values: dict[str, Any]) -> dict[str, Any]:
        result = reference(*values.values(), **kernel["options"])
        several = list(result.values()) if isinstance(result, dict) else result
        return dict(zip(kernel["outputs"], several if isinstance(several, (tuple, list)) else [several], strict=False))

    def run() -> list[dict[str, Any]]:
        return kernel_side.called(kernel, frame, call, given, leaves)

    def baseline() -> None:
        frame.results(of_plain, {one: given.by_name[one] for one in kernel["args"]}, leaves, incoming)
        frame.wait(device)

    enter_stage("launch")
    times = race_in_turns(run, baseline, rest=device == "cpu")
    del sys.modules[module]
    _raced.update(run=run, given=given, frame=frame)
    return times, {}


def again(arrays: Mapping[str, Array], *, name: str, firsts: Sequence[float]) -> kernel_side.Answer:
    """Run the kernel of the last race once for each number of ``firsts``; return the results of the last run.

    The input ``name`` has the values of one of ``arrays``, in turn, and its first element is that number.
    """
    run, given, frame = (_raced[one] for one in ("run", "given", "frame"))
    array, values = given.by_name[name], [frame.given(one, "cpu") for one in arrays.values()]
    for number, first in enumerate(firsts):
        array[...] = values[number % len(values)]
        array.reshape(-1)[:1] = first
        [results] = run()
    return None, {name: frame.taken(one) for name, one in results.items() if one is not None}
