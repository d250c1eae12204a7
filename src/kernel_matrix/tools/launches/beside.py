"""An emulator beside a GPU: how far its numbers are from those of the GPU, in units in the last place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from kernel_matrix.tools.launches.recording import Recording

FLOATS: Mapping[str, Any] = {
    "float64": np.float64,
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}


@dataclass(frozen=True)
class Beside:
    """The numbers of one launch on both: elements, how many differ, and the largest difference.

    ``instructions`` are those of the launch whose results a GPU may round in its own way. ``reason`` says why nothing
    is compared.
    """

    elements: int = 0
    different: int = 0
    ulps: float = 0
    instructions: tuple[str, ...] = ()
    reason: str = ""

    @property
    def text(self) -> str:
        """What is said of it."""
        if self.reason:
            return self.reason
        return f"{self.different} of {self.elements} elements differ, by {self.ulps:g} ulp at most"


def ulps(dtype: str, one: Any, other: Any) -> Any:
    """Return the distance of bits of a dtype in units in the last place; of NaN on one side only it is infinite."""
    left, right = (_ordered(dtype, bits) for bits in (one, other))
    distance = np.abs(left - right).astype(np.float64)
    if dtype in FLOATS:
        nan, also = (np.isnan(bits.view(FLOATS[dtype]).astype(np.float64)) for bits in (one, other))
        distance[nan & also] = 0
        distance[nan != also] = np.inf
    return distance


def _ordered(dtype: str, bits: Any) -> Any:
    """Return integers that are in the order of the numbers, one apart where these are neighbours."""
    width = bits.dtype.itemsize
    signed = bits.view(f"i{width}").astype(np.int64)
    if dtype not in FLOATS:
        return signed
    least = np.int64(-(2 ** (8 * width - 1)))
    return np.where(signed < 0, least - signed, signed)


def table(recordings: Iterable[Recording]) -> Iterator[str]:
    """Yield a table in Markdown: a row for each kernel, and one for each kind of instruction."""
    rows, kinds = list[str](), defaultdict[str, list[Beside]](list)
    for recording in recordings:
        kernels = {launch.identity: launch for launch in recording.launches}
        for one in recording.compiled:
            if one.beside is None:
                continue
            found, launch = one.beside, kernels[one.identity]
            numbers = "-" if found.reason else f"{found.different} | {found.ulps:g}"
            numbers = f"{found.elements or '-'} | {numbers if not found.reason else '- | -'}"
            rows.append(f"| {launch.kernel} | {numbers} | {found.reason or ' '.join(found.instructions)} |")
            for kind in found.instructions or ("none of these",):
                kinds[kind].append(found)
    if not rows:
        return
    yield from ("| kernel | elements | different | ulp | instructions that a GPU may round in its own way |",)
    yield from ("| --- | --- | --- | --- | --- |", *rows, "")
    yield from ("| instruction | launches with it | of these different | largest ulp |", "| --- | --- | --- | --- |")
    yield from (_kind(kind, found) for kind, found in sorted(kinds.items()))


def _kind(kind: str, found: Sequence[Beside]) -> str:
    compared = [one for one in found if not one.reason]
    different = [one for one in compared if one.different]
    most = max((one.ulps for one in compared), default=0)
    return f"| {kind} | {len(compared)} | {len(different)} | {most:g} |"
