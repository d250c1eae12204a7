"""Compare results of the same case: who lacks what the others have, and whose samples are far from theirs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from kernel_matrix.audit.raw import Raw

_TYPES = {"fp64": "<f8", "fp32": "<f4", "fp16": "<f2"}

Place = tuple[object, ...]


def lacking(group: Sequence[Raw]) -> set[int]:
    """Return the identities of the passing results that lack what at least half of the others have."""
    said: dict[Place, dict[int, list[bool]]] = {}
    for raw in group:
        has: list[tuple[Place, bool]] = [((name,), bool(raw.facts.get(name))) for name in ("inputs.sha256", "process")]
        has.append((("repeats", raw.action), "repeats" in raw.metrics))
        has += [((name.split("@")[0], "growth"), "growth" in figures) for name, figures in raw.outputs.items()]
        for place, here in has:
            said.setdefault(place, {}).setdefault(id(raw), []).append(here)
    without = set()
    for answers in said.values():
        every = [here for of_one in answers.values() for here in of_one]
        if any(every) and sum(every) >= (len(every) - 1) / 2:
            without |= {one for one, of_one in answers.items() if not all(of_one)}
    return without


def has_impossible_samples(raw: Raw) -> bool:
    """Return whether an element is larger than the golden's largest value and the largest error together."""
    return any((~(np.abs(values) <= largest + error)).any() for _, values, error, largest in _samples(raw))


def far_off(group: Sequence[Raw]) -> set[int]:
    """Return the identities of the results whose samples most others exclude, by their own samples and errors."""
    members: dict[Place, dict[int, list[npt.NDArray[np.float64]]]] = {}
    for raw in group:
        if digest := raw.facts.get("inputs.sha256"):
            for place, values, error, _ in _samples(raw):
                ranges = members.setdefault((digest, *place), {}).setdefault(id(raw), [])
                ranges.append(np.stack([values - error, values + error]))
    far = set()
    for of_all in members.values():
        heard = np.array([ranges[0] for ranges in of_all.values()])
        for one, ranges in of_all.items() if len(heard) >= 3 else ():
            for low, high in ranges:
                below, above = (heard[:, 1] < low).sum(axis=0), (heard[:, 0] > high).sum(axis=0)
                if (np.maximum(below, above) > (len(heard) - 1) / 2).any():
                    far.add(one)
    return far


def _samples(raw: Raw) -> Iterator[tuple[Place, npt.NDArray[np.float64], float, float]]:
    """Yield the place of each output with samples, their values, its largest error, and its golden's largest value."""
    for name, figures in raw.outputs.items():
        error, largest = figures.get("max_abs", math.nan), figures.get("largest", math.nan)
        if name in raw.samples and math.isfinite(error) and math.isfinite(largest):
            dtype, shape, bits = raw.samples[name]
            if dtype == "bf16":
                values = (np.frombuffer(bits, "<u2").astype(np.uint32) << 16).view(np.float32)
            else:
                values = np.frombuffer(bits, _TYPES[dtype])
            error += 1e-6 * error + 1e-9 * largest  # the golden of each machine has rounding errors of its own
            yield (name.split("@")[0], dtype, *shape), values.astype(float), error, largest
