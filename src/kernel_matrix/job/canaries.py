"""Put known faults into right results: a comparison that lets one of them pass would not have caught a real one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernel_matrix.job.accuracy import Budget, Golden, measure
from kernel_matrix.job.inputs import Array

Axes = Mapping[str, Sequence[str]]  # the names of the axes of each output


@dataclass(frozen=True)
class Subject:
    """One output with all that its comparison needs, for the faults to be put in."""

    result: Array
    golden: Golden
    budget: Budget
    axes: Sequence[str] = ()

    def passes(self) -> bool:
        """Return whether the result is inside its budget."""
        return not self.budget.faults(measure(self.result, self.golden))


@dataclass(frozen=True)
class Canary:
    """One fault in one output; ``caught`` is whether the comparison sees it."""

    fault: str
    output: str
    caught: bool


def try_canaries(subjects: Mapping[str, Subject], shortened: Mapping[str, Golden]) -> list[Canary]:
    """Put each fault that applies into one output, and return what the comparison made of it.

    ``shortened`` are goldens without the contribution of the last token, for outputs that sum over tokens. A fault
    applies where it changes the exact result by more than the budget: two streams that are equal may change places.
    """
    canaries = []
    outputs = list(subjects.items())
    for index, (fault, inject) in enumerate(FAULTS.items() if outputs else ()):
        first = index % len(outputs)  # not every fault in the same output
        for output, subject in outputs[first:] + outputs[:first]:
            faulty = inject(output, subject, shortened)
            if faulty is not None:
                canaries.append(Canary(fault, output, not replace(subject, result=faulty).passes()))
                break
    return canaries


def _element(_: str, subject: Subject, __: object) -> Array | None:
    """Return the result with its first element off by four times the budget, or by the dtype's steps that are more."""
    exact, largest = float(subject.golden.flat[0]), float(np.finfo(np.float32).max)
    off = 4 * subject.budget.max_abs or float(np.finfo(np.float32).tiny)
    while off < largest:
        faulty = subject.result.copy()
        faulty.flat[0] = exact + off
        if abs(float(faulty.flat[0]) - exact) > subject.budget.max_abs:
            return faulty
        off *= 2  # a narrow dtype rounded it back
    return None


def _nan(_: str, subject: Subject, __: object) -> Array | None:
    return _changed(subject, lambda values: values.flat.__setitem__(values.size // 2, np.nan))


def _streams(_: str, subject: Subject, __: object) -> Array | None:
    """Return the result with its first and last stream exchanged."""
    for axis, name in enumerate(subject.axes):
        if name == "streams" and subject.result.shape[axis] > 1:
            order = np.arange(subject.result.shape[axis])
            order[[0, -1]] = order[[-1, 0]]
            if _matters(subject, np.take(subject.golden, order, axis)):
                return np.take(subject.result, order, axis)
    return None


def _last_token(_: str, subject: Subject, __: object) -> Array | None:
    """Return the result with the values of the last token as they were before the kernel: NaN."""
    if "tokens" not in subject.axes:
        return None
    axis = list(subject.axes).index("tokens")
    last = (slice(None),) * axis + (-1,)
    return _changed(subject, lambda values: values.__setitem__(last, np.nan))


def _whole(_: str, subject: Subject, __: object) -> Array | None:
    """Return the result off by twice the budget in the norm, in the direction of the golden."""
    norm = float(np.linalg.norm(subject.golden))
    if not norm or subject.result.size < 2:
        return None
    with np.errstate(over="ignore"):  # Inf is a fault, too
        faulty = (subject.golden * (1 + 2 * subject.budget.rel_fro)).astype(subject.result.dtype)
    return faulty if _matters(subject, faulty.astype(np.float64)) else None


def _short(output: str, subject: Subject, shortened: Mapping[str, Golden]) -> Array | None:
    """Return the gradient that lacks the last token."""
    golden = shortened.get(output)
    if golden is None or not _matters(subject, golden):
        return None
    return golden.astype(subject.result.dtype)


FAULTS: dict[str, Callable[[str, Subject, Mapping[str, Golden]], Array | None]] = {
    "an element off by four times its budget": _element,
    "a NaN": _nan,
    "two streams exchanged": _streams,
    "the last token not written": _last_token,
    "the whole output off by twice its budget in the norm": _whole,
    "a parameter's gradient without the last token": _short,
}


def _changed(subject: Subject, change: Callable[[Array], object]) -> Array:
    values = subject.result.copy()
    change(values)
    return values


def _matters(subject: Subject, exact: Golden) -> bool:
    """Return whether an exact result with the fault is clearly outside the budget: beyond it by a half."""
    difference = exact - subject.golden
    norm = float(np.linalg.norm(subject.golden))
    largest = float(np.abs(difference).max(initial=0.0))
    relative = float(np.linalg.norm(difference)) / norm if norm else 0.0
    return largest > 1.5 * subject.budget.max_abs or relative > 1.5 * subject.budget.rel_fro
