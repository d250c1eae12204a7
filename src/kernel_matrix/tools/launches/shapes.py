"""Write the shapes that a program launched as operators of a matrix.yaml: axes, and cases with the number of calls."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernel_matrix.base.words import counted
from kernel_matrix.tools.launches.naming import Kernel, kernel_of, op_names
from kernel_matrix.tools.launches.recording import Recording

_QUICK = 8  # shapes of the tier quick: the most frequent ones; all are in full
_DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}  # as matrix.yaml names them
_COMMON = ("dtype", "scale", "seed", "direction")  # axes that every operator has: a size may not have such a name

Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class Shapes:
    """The shapes that a kernel was called with: the axes, the arguments in these, and the values with their calls."""

    axes: Sequence[str]
    arguments: Mapping[str, str]
    calls: Mapping[tuple[tuple[str, Any], ...], int]


def shapes_of(calls: Mapping[str, int]) -> Shapes:
    """Return what the calls of a kernel have in common, and in what they differ.

    Sizes that are equal in every call are one axis. It has the name of a number among the arguments that is equal to
    them, else of the first tensor and its dimension, such as ``x_0``.
    """
    described: list[tuple[Arguments, int]] = [(json.loads(text), count) for text, count in calls.items()]
    columns: dict[str, tuple[Any, ...]] = {}
    ranks: dict[str, int] = {}
    for arguments, _ in described:
        ranks |= {name: max(ranks.get(name, 0), len(one) - 1) for name, one in arguments.items() if _is_tensor(one)}
    for name, rank in ranks.items():
        for index in range(rank):
            columns[f"{name}_{index}"] = tuple(_size(arguments, name, index) for arguments, _ in described)
    numbers = {
        name: tuple(arguments.get(name) for arguments, _ in described)
        for name in dict.fromkeys(name for arguments, _ in described for name in arguments)
        if name not in ranks and not any(isinstance(arguments.get(name), bool) for arguments, _ in described)
    }
    named: dict[tuple[Any, ...], str] = {}
    for size, column in columns.items():
        if column not in named:
            name = next((name for name, values in numbers.items() if values == column), size)
            named[column] = _axis(name, named.values())
    counted: Counter[tuple[tuple[str, Any], ...]] = Counter()
    for index, (arguments, count) in enumerate(described):
        values: dict[str, Any] = {axis: column[index] for column, axis in named.items()}
        if dtype := next((_DTYPES[one[0]] for one in arguments.values() if _is_tensor(one) and one[0] in _DTYPES), ""):
            values["dtype"] = dtype
        counted[tuple(values.items())] += count
    axes = {size: named[column] for size, column in columns.items()}
    texts = {name: f"[{', '.join(axes[f'{name}_{index}'] for index in range(rank))}]" for name, rank in ranks.items()}
    return Shapes(list(named.values()), texts, dict(counted.most_common()))


def page(recordings: Sequence[Recording], program: str) -> str:
    """Return the operators as a part of a matrix.yaml, the kernels with most calls first."""
    lines = [
        f"# Written by `kernel-matrix launches --cases FILE`: the shapes of `{program}`, the most frequent first.",
        "# Sizes that are equal in every call are one axis. Copy what your suite has under `ops` of your matrix.yaml.",
        "ops:",
    ]
    every = [launch for recording in recordings for launch in recording.launches]
    names, calls = op_names(every), _calls(recordings)
    for kernel in sorted(calls, key=lambda one: -sum(calls[one].values())):
        lines += _op(names[kernel], kernel, shapes_of(calls[kernel]))
    without = sorted({names[kernel_of(launch)] for launch in every if not calls.get(kernel_of(launch))})
    lines += [f"  # {name}: it was called with no tensor that was seen" for name in without]
    return "\n".join([*lines, ""])


def _calls(recordings: Sequence[Recording]) -> Mapping[Kernel, Counter[str]]:
    """Return the calls of each kernel. A program is run once for each vendor: the run with most of its calls counts."""
    found: dict[Kernel, Counter[str]] = {}
    for recording in recordings:
        own: dict[Kernel, Counter[str]] = defaultdict(Counter)
        for launch in recording.launches:
            own[kernel_of(launch)].update(launch.calls)
        for kernel, calls in own.items():
            if calls.total() > found.get(kernel, Counter()).total():
                found[kernel] = calls
    return found


def _op(name: str, kernel: Kernel, shapes: Shapes) -> Iterator[str]:
    if not shapes.axes:
        yield f"  # {name}: its tensors have no dimensions"
        return
    yield f"  {name}: # {kernel[1]}.{kernel[2]} of {kernel[0]}, {counted(sum(shapes.calls.values()), 'call')}"
    yield from (f"    # {argument}: {text}" for argument, text in shapes.arguments.items())
    yield "    directions: [forward]"
    yield f"    axes: [{', '.join(shapes.axes)}]"
    yield "    cases:"
    every = [f"        - {_flow(values)} # {counted(count, 'call')}" for values, count in shapes.calls.items()]
    yield from ("      quick:", *every[:_QUICK], "      full:", *every)


def _flow(values: Sequence[tuple[str, Any]]) -> str:
    return f"{{ {', '.join(f'{name}: {value}' for name, value in values)} }}"


def _is_tensor(value: Any) -> bool:
    return isinstance(value, list)


def _size(arguments: Arguments, name: str, index: int) -> int:
    """Return a size of a tensor; 0 where a call has no such tensor or dimension."""
    value = arguments.get(name)
    return int(value[index + 1]) if isinstance(value, list) and len(value) > index + 1 else 0


def _axis(name: str, taken: Iterable[str]) -> str:
    """Return a name as matrix.yaml has it, which no other axis has."""
    plain = re.sub(r"[^a-z0-9_]+", "_", name.lower()).lstrip("_0123456789") or "size"
    plain = f"{plain}_size" if plain in _COMMON else plain
    return next(one for one in (plain, *(f"{plain}_{number}" for number in range(2, 999))) if one not in taken)
