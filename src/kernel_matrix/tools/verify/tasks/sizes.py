"""Make a task small: change the whole numbers in its text, and ask meta tensors, which cost nothing, what comes out."""

from __future__ import annotations

import ast
import functools
import math
import random
import time
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

Place = tuple[int, int]  # of a number in the text: its line and its column
Values = Mapping[Place, int]

_LEAST = 4  # a smaller number is a number of dimensions, a stride, a choice
_PER_ELEMENT, _PER_OPERATION = 4e-9, 2e-10  # seconds of one core, about
_LONGEST = 10**7
_TRIED = 0.1  # seconds that a real forward may take while sizes are chosen
_LARGER, _ALONE = 2.2, 3  # times the small sizes; how many numbers are made much larger, one at a time
_GIVERS = ("get_inputs", "get_init_inputs")


class Price(NamedTuple):
    """The cost of one forward, its longest sum, and the shapes that come out."""

    elements: int
    operations: int
    longest: int
    shapes: list[tuple[int, ...]]
    given: list[tuple[int, ...]]  # the shapes of its inputs and its weights

    @property
    def seconds(self) -> float:
        """About how long it takes on one core."""
        return self.elements * _PER_ELEMENT + self.operations * _PER_OPERATION


class Count(TorchDispatchMode):  # type: ignore[misc]  # PyTorch has no types here
    """Count elements that are made, operations of products, and the longest sum."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = self.operations = 0
        self.longest = 1

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the operator, and count."""
        result = function(*args, **(kwargs or {}))
        size = sum(one.numel() for one in tensors(result))
        self.elements += size
        known = flop_registry.get(function._overloadpacket)
        if known is not None and size:
            operations = int(known(*args, **(kwargs or {}), out_val=result))
            self.operations += operations
            self.longest = max(self.longest, operations // size)
        for one in [one for one in args if isinstance(one, torch.Tensor)][:1]:
            self.longest = max(self.longest, min(one.numel() // max(size, 1), _LONGEST))
        return result


def tensors(value: Any) -> Iterator[Any]:
    """Yield the tensors of a value."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from tensors(one)
    elif isinstance(value, dict):
        for _, one in sorted(value.items()):
            yield from tensors(one)


def numbers_in(source: str) -> dict[Place, int]:
    """Return the whole numbers of a task's text that may be sizes: of the module, else of what gives its inputs."""
    tree = ast.parse(source)
    assigned = [node.value for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value]
    within = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in _GIVERS]
    for nodes in (assigned, within):
        leaves = [leaf for node in nodes for leaf in ast.walk(node) if isinstance(leaf, ast.Constant)]
        if found := {(n.lineno, n.col_offset): n.value for n in leaves if type(n.value) is int and n.value >= _LEAST}:
            return found
    return {}


def named(source: str, values: Values) -> dict[str, tuple[int, int]]:
    """Return the numbers that are others than in the text, as pairs of before and now, by their variable or place."""
    names: dict[Place, str] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names |= {
                (n.lineno, n.col_offset): node.targets[0].id
                for n in ast.walk(node.value)
                if isinstance(n, ast.Constant)
            }
    before = numbers_in(source)
    return {
        names.get(p, f"line {p[0]}"): (before[p], values[p]) for p in values if before.get(p, values[p]) != values[p]
    }


class _Put(ast.NodeTransformer):
    def __init__(self, values: Values) -> None:
        self._values = values

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        value = self._values.get((node.lineno, node.col_offset))
        return node if value is None or type(node.value) is not int else ast.copy_location(ast.Constant(value), node)


def text(source: str, values: Values) -> str:
    """Return the text with other numbers."""
    return ast.unparse(ast.fix_missing_locations(_Put(values).visit(ast.parse(source)))) if values else source


def module(source: str, values: Values) -> types.ModuleType:
    """Run the reference's text, with other numbers, as a module."""
    made = types.ModuleType("reference")
    exec(_code(source, tuple(values.items())), made.__dict__)  # noqa: S102 (the task is the user's own)
    return made


@functools.lru_cache(64)
def _code(source: str, values: tuple[tuple[Place, int], ...]) -> types.CodeType:
    return compile(text(source, dict(values)), "<reference>", "exec")


def price(source: str, values: Values) -> Price:
    """Return the price of one forward of a task with these numbers.

    Raises:
        Exception: what the task raises with them.
    """
    with torch.device("meta"), torch.no_grad():
        made = module(source, values)
        inputs = made.get_inputs()
        model = made.Model(*made.get_init_inputs())
        given = [tuple(one.shape) for one in (*tensors(inputs), *model.parameters())]
        drawn = sum(map(math.prod, given))
        with Count() as count:
            result = model(*[one.to("meta") if isinstance(one, torch.Tensor) else one for one in inputs])
    shapes = [tuple(one.shape) for one in tensors(result)]
    if any(0 in shape for shape in shapes):
        raise ValueError("an output has no element")
    return Price(count.elements + drawn, count.operations, count.longest, shapes, given)


def smaller(source: str, seconds: float, limit: float = 15.0) -> tuple[dict[Place, int], Price]:
    """Return numbers with which a forward takes less than so many seconds, and its price; the task runs with them.

    The limit is of CPU time: one of wall time would leave cases out on a busy machine.

    Raises:
        ValueError: the task takes no smaller numbers.
    """
    for together in (False, True):
        values, price = _shrunk(source, seconds, limit, together=together)
        if price.seconds > _TRIED or _runs(source, values):
            return values, price
    raise ValueError("the task does not run with smaller numbers")


def _shrunk(source: str, seconds: float, limit: float, *, together: bool) -> tuple[dict[Place, int], Price]:
    """Return smaller numbers that meta tensors take; with ``together`` equal numbers stay equal."""
    values, began = numbers_in(source), time.process_time()
    first = now = price(source, values)
    frozen: set[Place] = set()
    while now.seconds > seconds and len(frozen) < len(values) and time.process_time() - began < limit:
        place = max((one for one in values if one not in frozen), key=lambda one: values[one])
        trials = _trials(values, place, frozen, together=together)
        better = next((found for trial in trials if (found := _tried(source, trial, now, first))), None)
        if better is None:
            frozen.add(place)
        else:
            values, now = better
    return values, now


def _trials(
    values: dict[Place, int], place: Place, frozen: set[Place], *, together: bool
) -> Iterator[dict[Place, int]]:
    """Yield smaller numbers: the largest alone, all of its value, all."""
    alike = [one for one in values if values[one] == values[place]]
    alone = [] if together and len(alike) > 1 else [place]
    for group in (alone, alike if len(alike) > 1 else [], [one for one in values if one not in frozen]):
        for divisor in (16, 8, 4, 2) if values[place] > 256 else (4, 2):
            trial = values | {one: values[one] // divisor for one in group if values[one] >= 2 * divisor}
            if trial != values:
                yield trial


def _priced(source: str, values: Values) -> Price | None:
    try:
        return price(source, values)
    except Exception:  # whatever a task raises with numbers that do not fit
        return None


def _runs(source: str, values: Values) -> bool:
    """Return whether a task runs on real tensors: meta tensors do not see a place beyond a table."""
    try:
        made = module(source, values)
        with torch.no_grad():
            made.Model(*made.get_init_inputs())(*made.get_inputs())
    except Exception:  # as above
        return False
    return True


def _tried(source: str, trial: dict[Place, int], now: Price, first: Price) -> tuple[dict[Place, int], Price] | None:
    """Return the trial with its price if the task takes it, is cheaper with it, and keeps the kind of its outputs."""
    if (found := _priced(source, trial)) is None:
        return None
    same = [len(one) for one in found.shapes] == [len(one) for one in first.shapes]
    tiny = any(math.prod(a) < 2 <= math.prod(b) for a, b in zip(found.shapes, first.shapes, strict=False))
    return (trial, found) if same and not tiny and found.seconds < now.seconds * 0.97 else None


def others(source: str, values: Values, draw: random.Random, seconds: float) -> dict[str, dict[Place, int]]:
    """Return other sizes by what they are: each number a little more or less, all larger, and each much larger alone.

    Odd ones, where the task takes them. A number that can change changes at least once, also one that no output shows.
    Equal numbers change alone, or else together.
    """
    if (first := _priced(source, values)) is None:
        return {}

    def fits(trial: Values, now: Price, most: float) -> Price | None:
        found = _priced(source, trial)
        other = found is not None and (found.shapes, found.given) != (now.shapes, now.given)
        return found if other and found and found.seconds < most * seconds and _runs(source, trial) else None

    found, current, now = dict[str, dict[Place, int]](), dict(values), first
    for place in draw.sample(list(values), len(values)):
        for group in _groups(values, place):
            change = draw.choice([1, 3, -1, 5, 7])
            trial = current | {one: max(2, current[one] + change) for one in group}
            if price := fits(trial, now, 4):
                current, now = trial, price
                break
    if current != values:
        found["other sizes"] = current
    wider = {place: int(_LARGER * value) | 1 for place, value in current.items()}
    if fits(wider, first, 20):
        found["larger sizes"] = wider
    for number, place in enumerate(sorted(values, key=lambda one: values[one])[:_ALONE]):
        sizes = (draw.randrange(301, 600, 2), int(_LARGER * values[place]) | 1, 2 * values[place])
        trials = (current | dict.fromkeys(group, size) for group in _groups(values, place) for size in sizes)
        if much := next((trial for trial in trials if trial[place] > values[place] and fits(trial, first, 40)), None):
            found[f"one size much larger ({number + 1})"] = much
    return found


def _groups(values: Values, place: Place) -> list[list[Place]]:
    """Return what may change with a number: nothing, or all numbers that are equal to it."""
    alike = [one for one in values if values[one] == values[place]]
    return [[place], alike] if len(alike) > 1 else [[place]]
