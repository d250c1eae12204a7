"""Compare the small rows of an output with the noise of small rows: a large value outweighs them in the norm.

The rows (along the last axis) are taken together by their size, each sixteen times smaller than the one before. The
budget of each group follows from the error that the baseline makes in the same rows, by the usual formula.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kernel_matrix.job.accuracy import Golden
from kernel_matrix.job.budget import EPSILON, Rules
from kernel_matrix.job.inputs import Array

_RATIO = 16.0  # between the sizes of two groups
_LEAST = 32  # elements of a group: of fewer, the baseline's error can be small by luck


def faults_of_small_lines(
    result: Array, golden: Golden, baseline: Sequence[Array], nudged: Sequence[Golden], steps: int, rules: Rules
) -> list[str]:
    """Return what :func:`faults_of_small_rows` does, along the other axes too: one large column hides the others."""
    for axis in reversed(range(golden.ndim)):
        own, exact = np.moveaxis(result, axis, -1), np.moveaxis(golden, axis, -1)
        others = [np.moveaxis(one, axis, -1) for one in baseline], [np.moveaxis(one, axis, -1) for one in nudged]
        word = "rows" if axis == golden.ndim - 1 else f"lines along axis {axis}"
        if faults := faults_of_small_rows(own, exact, *others, steps, rules, word):
            return faults
    return []


def faults_of_small_rows(
    result: Array,
    golden: Golden,
    baseline: Sequence[Array],
    nudged: Sequence[Golden],
    steps: int,
    rules: Rules,
    word: str = "rows",
) -> list[str]:
    """Return in words which groups of small rows are further from the golden than the baseline's noise allows.

    All arrays are finite and have the golden's shape.
    """
    if golden.ndim < 2 or not golden.size:
        return []
    sizes = _norms(golden)
    faults = []
    for group in _groups(sizes):
        if np.count_nonzero(group) * golden.shape[-1] < _LEAST:
            continue
        whole = float(np.linalg.norm(sizes[group]))

        def relative(values: Array | Golden, group: npt.NDArray[np.bool_] = group, whole: float = whole) -> float:
            return float(np.linalg.norm(_norms(values.astype(np.float64) - golden)[group])) / whole

        floor = max(map(relative, baseline))
        conditioning = max(map(relative, nudged), default=0.0)
        limit = max(rules.factor * max(floor, conditioning, rules.ulps * EPSILON), math.sqrt(steps) * conditioning)
        if not (error := relative(result)) <= limit:
            faults.append(
                f"rel_fro {error:.3g} of the {np.count_nonzero(group)} {word} of this size is over {limit:.3g}"
            )
    return faults


def _norms(values: Golden) -> Golden:
    """Return the norm of each row."""
    rows = values.reshape(-1, values.shape[-1])
    return np.asarray(np.linalg.norm(rows, axis=1))


def _groups(sizes: Golden) -> list[npt.NDArray[np.bool_]]:
    """Return the rows of each size but the largest. Rows of zeros have none."""
    largest = float(sizes.max(initial=0.0))
    if not largest:
        return []
    with np.errstate(divide="ignore"):
        places = np.floor(np.log(largest / sizes) / math.log(_RATIO))
    return [places == place for place in np.unique(places[np.isfinite(places)]) if place]
