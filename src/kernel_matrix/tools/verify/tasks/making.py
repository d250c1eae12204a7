"""Make a case of a function of tensors: describe it for the kit, find its rows and the inputs that it changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from kernel_matrix.job.inputs import Array
from kernel_matrix.kit import draws
from kernel_matrix.kit.description import Operator, array
from kernel_matrix.kit.frameworks import framework
from kernel_matrix.tools.verify.tasks.task import (
    Arrays,
    Case,
    UndecidedError,
    UnusableError,
    as_array,
    described,
    flattened,
    is_structured,
)
from kernel_matrix.tools.verify.tasks.values import tables

ROWS = "rows"
Reference = Callable[..., list[Any]]  # tensors, and then the weights; it may change its tensors
_LEAST_ROWS = 3
_UNDERFLOW = 1e-30  # the largest number of a result that says nothing


def made(
    name: str,
    seed: int,
    arguments: Mapping[str, Any],
    reference: Reference,
    *,
    redraw: Callable[[int], Sequence[Any]] | None = None,
    weights: Mapping[str, Any] | None = None,
    trained: Collection[str] = (),
    steps: int = 1,
    differentiable: bool = False,
    **words: Any,
) -> Case:
    """Return the case of a call: ``arguments`` has ``args`` and ``words``, and ``redraw`` gives its tensors anew."""
    call, leaves = _flat_call(arguments)
    values = {f"x{place}": as_array(one) for place, one in enumerate(leaves)}
    state = {f"the weight {key}": as_array(one) for key, one in (weights or {}).items()}
    given = [tensor(one) for one in values.values()]
    asked = _with_gradient(reference, leaves, weights or {}, trained) if differentiable else []
    results = _results(reference, given)
    changed = [key for (key, one), after in zip(values.items(), given, strict=True) if _differs(one, as_array(after))]
    returned = _not_in([given[list(values).index(key)] for key in changed], results)
    outputs = {key: values[key] for key in changed} | {f"y{n}": as_array(one) for n, one in enumerate(returned)}
    operator = Operator(
        "candidate",
        _in_place(reference, list(values), changed),
        _kinds(values),
        _kinds(outputs),
        framework="torch",
        compute="case",  # a reference that rounds on its way may do so
        in_place=tuple(changed),
        steps=max(2, steps),
        draw=_drawing(list(values), redraw, seed) if redraw else None,
        differentiable=_chosen(values, asked),
    )
    operator = _with_tables(_with_rows(operator, values, outputs, redraw, seed), values, redraw, seed)
    axes = {ROWS: len(next(iter(values.values())))} if operator.rows else {}
    inputs = {**operator.inputs, **_kinds(state)}
    weighted = replace(operator, inputs=inputs, differentiable=_chosen(values | state, asked))
    return Case(name, seed, operator, weighted, values, state, call, copies=_alias(given, results), axes=axes, **words)


def _with_tables(
    operator: Operator, values: Arrays, redraw: Callable[[int], Sequence[Any]] | None, seed: int
) -> Operator:
    """Return the operator, where an input that is the same for another seed stays as it is."""
    if redraw is None:
        return operator
    others = redraw((seed + 1) % 2**31)
    same = tables([tensor(one) for one in values.values()], [tensor(as_array(one)) for one in others])
    inputs = dict(operator.inputs)
    for (name, one), fixed in zip(values.items(), same, strict=True):
        if fixed and ROWS not in inputs[name].axes:
            words = {word: getattr(inputs[name], word) for word in ("dtype", "scale", "below")}
            inputs[name] = array(*inputs[name].axes, **words, saved=lambda *_, one=one: one)
    return replace(operator, inputs=inputs)


def _kinds(values: Arrays) -> dict[str, Any]:
    return {name: described(one, None) for name, one in values.items()}


def _with_gradient(
    reference: Reference, inputs: Sequence[Any], weights: Mapping[str, Any], trained: Collection[str]
) -> list[bool]:
    """Return for which inputs, and then for which weights, the reference has a gradient: it need not use one."""
    leaves = [one.detach().clone().requires_grad_(one.requires_grad) for one in inputs]
    leaves += [one.detach().clone().requires_grad_(key in trained) for key, one in weights.items()]
    chosen = [one for one in leaves if one.requires_grad]
    tops = [one.sum() for one in _results(reference, leaves) if one.requires_grad]
    found = iter(torch.autograd.grad(sum(tops), chosen, allow_unused=True) if tops and chosen else ())
    return [one.requires_grad and next(found, None) is not None for one in leaves]


def _chosen(values: Mapping[str, Array], asked: Sequence[bool]) -> tuple[str, ...]:
    return tuple(name for name, ask in zip(values, asked, strict=False) if ask)


def _flat_call(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Return the form of a call, and its tensors.

    Raises:
        UndecidedError: there is none.
    """
    leaves: list[Any] = []
    call = {
        "args": [flattened(one, leaves) for one in arguments["args"]],
        "words": {key: flattened(one, leaves) for key, one in arguments.get("words", {}).items()},
    }
    if not leaves:
        raise UndecidedError("the task has no tensor as an input")
    return call, leaves


def _results(reference: Reference, given: list[Any]) -> list[Any]:
    """Return what the reference gives.

    Raises:
        UnusableError: it fails.
    """
    try:
        return reference(*given)
    except Exception as error:
        raise UnusableError(f"the reference fails: {type(error).__name__}: {str(error)[:300]}") from error


def tensor(values: Array) -> Any:
    """Return an array as a tensor."""
    return framework("torch").given(np.array(values), "cpu")


def _differs(one: Array, other: Array) -> bool:
    return one.tobytes() != other.tobytes()


def _in_place(reference: Reference, names: list[str], changed: list[str]) -> Callable[..., list[Any]]:
    """Return the reference, where the inputs that it changes are results, before those that it returns."""
    places = [names.index(name) for name in changed]

    def called(*tensors: Any) -> list[Any]:
        results = reference(*tensors)
        kept = [tensors[place] for place in places]
        return [*kept, *_not_in(kept, results)]

    return called if places else reference


def _not_in(changed: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """Return the results that do not lie in an input which was changed: that one is a result already."""
    known = {one.untyped_storage().data_ptr() for one in changed}
    return [one for one in results if one.untyped_storage().data_ptr() not in known]


def _alias(given: Sequence[Any], results: Sequence[Any]) -> bool:
    inputs = {one.untyped_storage().data_ptr() for one in given if one.numel()}
    return any(one.untyped_storage().data_ptr() in inputs for one in results if one.numel())


def _drawing(
    names: list[str], redraw: Callable[[int], Sequence[Any]], seed: int, by_row: Sequence[str] = ()
) -> Callable[[Mapping[str, Any], str], dict[str, Array]]:
    """Return how the kit draws inputs anew: as the task does, with as many rows as it asks for."""

    def draw(sizes: Mapping[str, Any], which: str) -> dict[str, Array]:
        other = [as_array(one) for one in redraw((seed + 7919 * sum(map(ord, which))) % 2**31)]
        drawn = dict(zip(names, other, strict=True))
        count = sizes.get(ROWS)
        return {n: one if n not in by_row or count is None else _of_rows(one, int(count)) for n, one in drawn.items()}

    return draw


def _of_rows(values: Array, count: int) -> Array:
    """Return so many rows: the first ones, or all of them again and again."""
    return np.ascontiguousarray(values[np.arange(count) % max(len(values), 1)])


def _with_rows(
    operator: Operator, values: Arrays, outputs: Arrays, redraw: Callable[[int], Sequence[Any]] | None, seed: int
) -> Operator:
    """Return the operator with its axis of rows, if its first axis counts rows that do not read each other."""
    first = next(iter(values.values()))
    count = first.shape[0] if first.ndim else 0
    if redraw is None or count < _LEAST_ROWS or operator.in_place:
        return operator
    if any(one.ndim < 1 or one.shape[0] != count for one in outputs.values()):
        return operator
    alike = [name for name, one in values.items() if one.ndim and one.shape[0] == count]
    if any(is_structured(values[name]) for name in alike):
        return operator
    other = dict(zip(values, (as_array(one) for one in redraw((seed + 1) % 2**31)), strict=True))
    for names in dict.fromkeys((tuple(alike), tuple(alike[:1]))):
        if _is_by_row(operator, values, other, names, count // 2):
            kinds = {n: described(one, ROWS if n in names else None) for n, one in values.items()}
            kept = {n: described(one, ROWS) for n, one in outputs.items()}
            draw = _drawing(list(values), redraw, seed, names)
            return replace(operator, inputs=kinds, outputs=kept, rows=ROWS, draw=draw)
    return operator


def _is_by_row(operator: Operator, values: Arrays, other: Arrays, names: Sequence[str], keep: int) -> bool:
    """Return whether a row of the result stays where all other rows of these inputs are drawn anew, and they change."""
    mixed = {name: one.copy() for name, one in values.items()}
    for name in names:
        mixed[name][:] = other[name]
        mixed[name][keep] = values[name][keep]
    try:
        with torch.no_grad():
            before = operator.reference(*(tensor(one) for one in draws.wide(values).values()))
            after = operator.reference(*(tensor(one) for one in draws.wide(mixed).values()))
    except Exception:  # whatever a reference raises for float64: its cases say so
        return False
    pairs = list(zip(before, after, strict=True))
    stays = all(torch.allclose(a[keep].double(), b[keep].double(), rtol=1e-12, atol=1e-300) for a, b in pairs)
    return stays and any(not torch.equal(a, b) for a, b in pairs)


class Wide(TorchFunctionMode):  # type: ignore[misc]  # PyTorch has no types here
    """Have a reference that names a narrower type compute in float64 all the same."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, with float64 in place of other types of floats."""
        if function in _NARROWING:
            return args[0].double()
        words = {name: _widest(one) for name, one in (kwargs or {}).items()}
        return function(*map(_widest, args), **words)


_NARROWING = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)


def _widest(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value


class NotFiniteError(ArithmeticError):
    """The reference gives NaN, Inf, or nothing but numbers next to zero."""


def check_finite(case: Case) -> None:
    """Raise the error where nothing can be compared with the reference's numbers."""
    several = (case.values, draws.wide(case.values))
    results = [one for values in several for one in case.operator.reference(*map(tensor, values.values()))]
    floats = [one.double().abs() for one in results if one.is_floating_point() and one.numel()]
    if any(not torch.isfinite(one).all() or 0 < one.max() < _UNDERFLOW for one in floats):
        raise NotFiniteError("the reference gives NaN, Inf or subnormal numbers there")
