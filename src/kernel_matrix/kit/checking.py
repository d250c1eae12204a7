"""Check a kernel in a test of a plain suite: it runs in a process of its own, under the checks of the kit."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernel_matrix.job.arrays import as_numpy
from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.inputs import Array
from kernel_matrix.job.kernel_process import KernelProcess
from kernel_matrix.job.suite_compare import Comparer
from kernel_matrix.kit import draws
from kernel_matrix.kit.conform import MADE, conform
from kernel_matrix.kit.description import Operator, array, described_as
from kernel_matrix.kit.frameworks import framework
from kernel_matrix.kit.frameworks.names import NAMES, ON_DEVICES

_ROWS = "rows"
_COUNTS = ("elements", "repeats", "repeats_differing", "canary.injected", "canary.caught")


class _NoJournal:
    """Nobody reads the stages of a case that is part of no job."""

    def write(self, entry: str, **fields: Any) -> None:
        """Write nothing."""


def check(
    comparer: Comparer,
    kernel: Callable[..., Any] | str,
    reference: Callable[..., Any],
    inputs: Mapping[str, Any],
    *,
    name: str = "kernel",
    rows: str | Sequence[str] = (),
    **words: Any,
) -> None:
    """Run the kernel on the inputs under all checks; :meth:`Comparer.check` says what the arguments are.

    Raises:
        AssertionError: a number is wrong.
        MisbehavedError: the kernel did something else than to compute its outputs.
        ValueError: the kernel cannot be imported by another process, or a word does not fit.
    """
    __tracebackhide__ = True
    path, values = _path_of(kernel), {key: as_numpy(one) for key, one in inputs.items()}
    by_row = [rows] if isinstance(rows, str) else list(rows)
    _hold_apart(comparer, path, reference, name)
    sizes = _sizes(values, by_row)
    frame = _framework_of(next(iter(inputs.values())))
    one = _described(reference, values, sizes, by_row, {"framework": frame, **words})
    device = str(getattr(next(iter(inputs.values())), "device", "cpu")).partition(":")[0]
    folder = Path(sys.modules[reference.__module__].__file__ or ".").parent
    for direction in ("forward", *(("backward",) if one.differentiable else ())):
        with _process(folder) as process:
            case = _case(comparer, path, direction, sizes, device if frame in ON_DEVICES else "cpu", process)
            try:
                conform(case, one, values)
            finally:
                _take(comparer, f"{name}_{direction}", case)


def _framework_of(value: Any) -> str:
    """Return the framework of an array.

    Raises:
        TypeError: none of the kit's has it.
    """
    root = type(value).__module__.partition(".")[0].removesuffix("lib")
    if root not in NAMES:
        raise TypeError(f"{type(value).__name__} is no array of {', '.join(NAMES)}")
    return root


def _path_of(kernel: Callable[..., Any] | str) -> str:
    """Return ``module:function``, by which another process imports the kernel.

    Raises:
        ValueError: it has no such name.
    """
    if isinstance(kernel, str):
        return kernel
    module, name = getattr(kernel, "__module__", ""), getattr(kernel, "__qualname__", "")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not kernel or module == "__main__":
        raise ValueError(
            f"{name or kernel!r} cannot be imported by another process: nothing of that name is at the top of "
            f"'{module}', or something else is. Put a function there, or give 'module:function'"
        )
    return f"{module}:{name}"


def _hold_apart(comparer: Comparer, path: str, reference: Callable[..., Any], name: str) -> None:
    """Check that plain code is not the kernel itself, and that the name is a new one.

    Raises:
        ValueError: it is the kernel, or the name was used already.
    """
    if path == f"{reference.__module__}:{getattr(reference, '__qualname__', '')}":
        raise ValueError(f"{path} is the kernel and its plain code: they would be wrong together")
    if any(figure.startswith((f"{name}_forward_", f"{name}_backward_")) for figure in comparer.metrics):
        raise ValueError(f"this test has checked {name!r} already: give each kernel another name=")


def _sizes(values: Mapping[str, Array], by_row: Sequence[str]) -> dict[str, int]:
    """Return how many rows there are, if rows are counted.

    Raises:
        ValueError: there is no input, or none of a name in ``rows``, or they have different numbers of rows.
    """
    if not values or not set(by_row) <= values.keys():
        raise ValueError(
            f"rows= names {', '.join(by_row) or 'nothing'}, and the inputs are {', '.join(values) or 'none'}"
        )
    if len(counts := {values[name].shape[:1] for name in by_row}) > 1 or () in counts:
        raise ValueError(f"the first axis of {', '.join(by_row)} counts rows, and they have {sorted(counts)} of them")
    return {_ROWS: counts.pop()[0]} if counts else {}


def _described(
    reference: Callable[..., Any],
    values: Mapping[str, Array],
    sizes: Mapping[str, int],
    by_row: Sequence[str],
    words: Mapping[str, Any],
) -> Operator:
    """Return the description that follows from the inputs, and from what plain code gives for them."""
    kinds = {name: _kind(one, with_rows=name in by_row) for name, one in values.items()}
    frame = framework(str(words["framework"]))
    given = {name: frame.given(np.array(one), "cpu") for name, one in values.items()}
    result = reference(**given, **words.get("options", {}))
    if isinstance(result, dict):
        results = result
    else:
        several = list(result) if isinstance(result, (tuple, list)) else [result]
        results = {"out" if len(several) == 1 else f"out{place}": one for place, one in enumerate(several)}
    outputs, first_float = {}, next((one.dtype.name for one in values.values() if not draws.is_whole(one)), "")
    for name, one in results.items():
        taken = frame.taken(one)
        kind = taken.dtype.name if draws.is_whole(taken) else first_float or taken.dtype.name
        first = bool(sizes) and taken.ndim > 0 and taken.shape[0] == sizes[_ROWS]
        outputs[name] = array(*_axes(taken, first), dtype=kind)
    return described_as(reference, outputs, {**kinds, **({"rows": _ROWS} if sizes else {}), **words})


def _kind(values: Array, *, with_rows: bool) -> array:
    """Return what is drawn in an input's place: numbers of its mean and spread, or whole ones up to its largest."""
    axes, kind = _axes(values, with_rows), values.dtype.name
    if draws.is_whole(values):
        return array(*axes, dtype=kind, below=int(values.max(initial=0)) + 1)
    wide = values.astype(np.float64)
    mean = float(wide.mean()) if wide.size else 0.0
    spread = float(wide.std()) if wide.size else 1.0  # of equal values none, and others have to be drawn all the same
    return array(*axes, dtype=kind, mean=mean, scale=spread or abs(mean) / 4 or 1.0, positive=bool((wide >= 0).all()))


def _axes(values: Array, with_rows: bool) -> tuple[str | int, ...]:
    return (_ROWS, *values.shape[1:]) if with_rows else values.shape


def _case(
    comparer: Comparer, path: str, direction: str, sizes: Mapping[str, int], device: str, process: KernelProcess
) -> RunningCase:
    operator = comparer.key.partition("/")[0].partition(".")[0] or "kernel"
    accuracy = comparer.limits(("forward", "backward"))
    job = {"backend": "", "kernel": path, "device": device, "accuracy": accuracy}
    case = {
        "id": comparer.key,
        "name": comparer.key,
        "op": operator,
        "direction": direction,
        "target": "",
        "axes": sizes,
    }
    return RunningCase(job, {**case, "action": "run", "canary": True}, _NoJournal(), process)  # type: ignore[arg-type]


@contextlib.contextmanager
def _process(folder: Path) -> Iterator[KernelProcess]:
    """Start a process that imports what this one can, and end it."""
    before = os.environ.get("PYTHONPATH")
    with tempfile.TemporaryDirectory(prefix="kernel-matrix-") as logs:
        process = KernelProcess(folder, Path(logs) / "log.txt", adopts=False)
        os.environ["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
        try:
            yield process
        finally:
            if before is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = before
            process.close()


def _take(comparer: Comparer, name: str, case: RunningCase) -> None:
    """Give the test the figures and the facts of a case; the names of its outputs begin with ``name``."""
    for key, value in case.metrics.items():
        output, _, figure = key.partition(".")
        if key in _COUNTS:
            comparer.metrics[key] = comparer.metrics.get(key, 0.0) + value
        elif figure:
            comparer.metrics[f"{name}_{output}.{figure}"] = value
    if MADE in case.facts:
        comparer.facts[MADE] = case.facts[MADE]
