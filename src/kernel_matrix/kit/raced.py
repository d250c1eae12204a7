"""The kernel's process in a race: the kernel and the baseline take turns, and then the kernel runs alone again.

The baseline is imported from the suite for the race, and forgotten after it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel_matrix.job.inputs import Array
from kernel_matrix.job.race import race as race_in_turns
from kernel_matrix.job.worker import enter_stage
from kernel_matrix.kit import forbidden, kernel_side
from kernel_matrix.kit.calls import as_called, by_name
from kernel_matrix.kit.frameworks import framework
from kernel_matrix.kit.frameworks.base import Framework
from kernel_matrix.kit.laying import Arrays, arrays_of
from kernel_matrix.kit.layouts import PACKED, UNWRITTEN

_raced: dict[str, Any] = {}  # what the last race has called


def race(
    arrays: Mapping[str, Array], *, kernel: Mapping[str, Any], asked: Sequence[str], plain: str, repeats: int
) -> kernel_side.Answer:
    """Time the kernel and the baseline in turns; return the times, and the results of ``repeats`` further runs.

    The arrays stay for :func:`again`.
    """
    frame, call = framework(kernel["framework"]), kernel_side.found(kernel)
    given = arrays_of(arrays, kernel, frame, 1, PACKED, True, UNWRITTEN)
    unwritten = given.written(kernel)

    def run() -> list[dict[str, Any]]:
        return kernel_side.called(kernel, frame, call, given, list(asked))

    with forbidden.forgotten(plain.partition(":")[0]):
        baseline = _baseline(plain, kernel, frame, given, list(asked))
        enter_stage("launch")
        times = race_in_turns(run, baseline, rest=kernel["device"] == "cpu")
    results: dict[str, Array] = {}
    for number in range(repeats):
        given.refill(unwritten)
        [out] = run()
        results |= {f"{number} {name}": frame.taken(one) for name, one in out.items() if one is not None}
    _raced.update(run=run, given=given, frame=frame)
    return {"times": times, "threads": frame.threads()}, results


def _baseline(
    plain: str, kernel: Mapping[str, Any], frame: Framework, given: Arrays, leaves: list[str]
) -> Callable[[], None]:
    """Import the baseline and call it once; return how it is called again."""
    module, _, name = plain.partition(":")
    incoming = {one: given.by_name[one] for one in kernel["incoming"]}
    arrays = {one: given.by_name[one] for one in kernel["args"]}
    with forbidden.allowed():
        op = getattr(importlib.import_module(module), name).described
        into = as_called(kernel["results"], given.outputs(kernel), there=bool(kernel["writes"] and op.baseline))

        def of_plain(values: dict[str, Any]) -> dict[str, Any]:
            inputs = as_called(kernel["inputs"], values)
            result = (op.baseline or op.reference)(*inputs, *into, **kernel["options"])
            return by_name(result, kernel["results"], list(kernel["outputs"]))

        def baseline() -> None:
            frame.results(of_plain, dict(arrays), leaves, incoming)
            frame.wait(kernel["device"])

        baseline()
    return baseline


def vary(_: Mapping[str, Array], *, name: str, added: Sequence[float]) -> kernel_side.Answer:
    """Make variants of an input of the last race, each with one of these numbers added to all of its elements."""
    array = _raced["given"].by_name[name]
    _raced["variants"] = [array + number for number in added]
    return None, {}


def again(_: Mapping[str, Array], *, name: str, firsts: Sequence[float]) -> kernel_side.Answer:
    """Run the kernel of the last race once for each number of ``firsts``, the first element of the input ``name``.

    The runs take the variants of the input in turns, so each has other inputs. Return the results of the last one.
    """
    run, given, frame, variants = (_raced[one] for one in ("run", "given", "frame", "variants"))
    places = [array.reshape(-1)[:1] for array in variants]
    for number, first in enumerate(firsts):
        variant = number % len(variants)
        places[variant][...] = first
        given.by_name[name] = variants[variant]
        [results] = run()
    return None, {name: frame.taken(one) for name, one in results.items() if one is not None}
