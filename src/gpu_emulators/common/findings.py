"""Findings: what a kernel did that a card would not have told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A range of memory, as a kernel sees it."""

    name: str
    base: int
    size: int
    reach: int = 1 << 39  # bytes before and behind it in which an address is told by its distance


@dataclass(frozen=True)
class Finding:
    """One fault of one instruction: its kernel, what it did, and how often.

    ``line`` is the place in the source, where the code object has lines; empty where it has none. What is found in the
    code alone, with no launch, is no wave's: its ``unit`` is empty.
    """

    kind: str
    kernel: str
    instruction: str
    address: int
    what: str
    wave: int
    count: int
    line: str = ""
    unit: str = "wave"

    def __str__(self) -> str:
        """Return the finding as one sentence."""
        often = f", {self.count} times" if self.count > 1 else ""
        who = f" ({self.unit} {self.wave}{often})" if self.unit else ""
        where = f"{self.kernel}{self.address:+#x}{f' ({self.line})' if self.line else ''}"
        return f"{where}: {self.instruction} {self.what}{who}"


def access(verb: str) -> Callable[[int, int, Sequence[Place]], str]:
    """Return what tells of an access outside of memory."""
    return lambda address, size, places: f"{verb} {size} bytes {relative(address, places)}"


def relative(address: int, places: Sequence[Place]) -> str:
    """Return where an address is, as a distance from the nearest range of memory below or above."""
    below = [place for place in places if 0 <= address - place.base < place.size + place.reach]
    if below:
        nearest = max(below, key=lambda place: place.base)
        offset = address - nearest.base
        if offset >= nearest.size:
            return f"that begin {offset - nearest.size} bytes behind the end of {nearest.name} ({nearest.size} bytes)"
        return f"from byte {offset} of {nearest.name} on, which has {nearest.size}"
    above = [place for place in places if 0 < place.base - address < place.reach]
    if above:
        nearest = min(above, key=lambda place: place.base)
        return f"that begin {nearest.base - address} bytes before {nearest.name}"
    return f"at {address:#x}, which is in no memory of the launch; a pointer that a tensor holds is not mapped"


def memory_race(address: int, other: int, places: Sequence[Place]) -> str:
    """Return who else was at a byte of memory."""
    group, wave, did = other >> 32, other >> 1 & 0x7FFFFFFF, "read" if other & 1 else "wrote"
    where = relative(address, places)
    return f"races {where}: wave {wave} of workgroup {group - 1} {did} it, and nothing orders the two"
