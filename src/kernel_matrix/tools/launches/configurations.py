"""The configurations of an autotuned launch, compared with each other in float64: one that computes another result."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kernel_matrix.tools.launches.numbers import Change, Changes, changes_in
from kernel_matrix.tools.launches.recording import Recording

_NEAR = 1e-6  # of a tensor's largest number: float64 in another order is much nearer


def odd(recording: Recording, folder: Path) -> dict[str, str]:
    """Return what is wrong with each configuration whose float64 result is not the one of most others, by launch.

    A tensor whose places and values both differ is memory that a configuration uses in its own way, and is not judged.
    ``folder`` has a folder for each launch.
    """
    calls: dict[tuple[str, str, int], dict[str, Changes]] = defaultdict(dict)
    for launch in recording.launches:
        file = folder / launch.identity / "golden.npz"
        if launch.tuned and file.exists():
            calls[launch.module, launch.kernel, launch.tuned[0]][launch.identity] = changes_in(file)
    return {identity: text for call in calls.values() for identity, text in odd_of(call)}


def odd_of(call: Mapping[str, Changes]) -> Iterator[tuple[str, str]]:
    """Yield the odd configurations of one call, each with a sentence."""
    groups: list[list[str]] = []
    for identity, changes in call.items():
        same = next((one for one in groups if not any(_differ(call[one[0]], changes))), None)
        if same is None:
            groups.append([identity])
        else:
            same.append(identity)
    usual = max(groups, key=len)  # the first of the largest
    for group in groups:
        for identity in group if group is not usual else ():
            if texts := list(_differ(call[usual[0]], call[identity])):
                most = f"{len(usual)} of the {len(call)} configurations"
                yield identity, f"in float64 this configuration has another result than {most}: {'; '.join(texts)}"


def _differ(usual: Changes, other: Changes) -> Iterator[str]:
    for name in dict.fromkeys([*usual, *other]):
        if name in usual and name in other and (text := _difference(usual[name], other[name])):
            yield f"{name.rsplit(' ', 1)[0]}: {text}"


def _difference(usual: Change, other: Change) -> str:
    """Return how a tensor differs, in words; empty where it is the same, or is used in another way."""
    common = np.intersect1d(usual.where, other.where)
    left, right = (one.after[np.searchsorted(one.where, common)] for one in (usual, other))
    wrong = int(np.count_nonzero(_apart(left, right)))
    absent, more = (np.setdiff1d(one.where, two.where).size for one, two in ((usual, other), (other, usual)))
    if wrong and (absent or more):
        return ""
    if wrong:
        return f"{wrong} of {common.size} elements"
    texts = [f"{absent} elements are not written"] if absent else []
    return ", ".join([*texts, *([f"{more} more elements are written"] if more else [])])


def _apart(left: Any, right: Any) -> Any:
    if left.dtype.kind != "f":
        return left != right
    nan = np.isnan(left), np.isnan(right)
    with np.errstate(invalid="ignore"):
        most = np.abs(np.nan_to_num(left, posinf=0, neginf=0)).max(initial=0)
        near = (left == right) | (np.abs(left - right) <= _NEAR * most) | (nan[0] & nan[1])
    return ~near
