"""Findings: what a kernel did that a card would not have told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

# Of a missing wait: numbers from the first one on mean scalar registers; numbers from the others on mean no register.
_SCALARS, _BARRIER, _IN_FLIGHT = 1000, 2000, 3000
_READERS = 0x10000  # of a race: the wave was a reader
_SEVERAL = 0xFFFF
_ACCUMULATORS = 256
_SPECIAL = {106: "vcc", 107: "vcc", 126: "exec", 127: "exec", 128: "MODE"}
_USES = ("in an address", "as data of a store", "as a scalar")


@dataclass(frozen=True)
class Place:
    """A range of memory, as a kernel sees it."""

    name: str
    base: int
    size: int


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
        where = f"{self.kernel}+{self.address:#x}{f' ({self.line})' if self.line else ''}"
        return f"{where}: {self.instruction} {self.what}{who}"


def access(verb: str) -> Callable[[int, int, Sequence[Place]], str]:
    """Return what tells of an access outside of memory."""
    return lambda address, size, places: f"{verb} {size} bytes {_relative(address, places)}"


def _relative(address: int, places: Sequence[Place]) -> str:
    """Return where an address is, as a distance from the nearest range of memory below or above."""
    below = [place for place in places if place.base <= address]
    if below and address - (nearest := max(below, key=lambda place: place.base)).base < 1 << 39:
        offset = address - nearest.base
        if offset >= nearest.size:
            return f"that begin {offset - nearest.size} bytes behind the end of {nearest.name} ({nearest.size} bytes)"
        return f"from byte {offset} of {nearest.name} on, which has {nearest.size}"
    above = [place for place in places if place.base > address and place.base - address < 1 << 39]
    if above:
        nearest = min(above, key=lambda place: place.base)
        return f"that begin {nearest.base - address} bytes before {nearest.name}"
    return f"at {address:#x}, which is in no memory of the launch"


def _register(number: int) -> str:
    if number >= _SCALARS:
        return _SPECIAL.get(number - _SCALARS, f"s{number - _SCALARS}")
    return f"a{number - _ACCUMULATORS}" if number >= _ACCUMULATORS else f"v{number}"


def _no_wait(number: int, wave: int, _: Sequence[Place]) -> str:
    if number == _IN_FLIGHT:
        return f"writes what wave {wave} may still be reading: it passed a barrier before it waited (no wait)"
    if number == _BARRIER:
        return "is passed before what the wave wrote to the LDS is known to be there (no wait)"
    return f"uses {_register(number)} before what fills it is known to be there (no wait)"


def _race(offset: int, other: int, _: Sequence[Place]) -> str:
    wave = other % _READERS
    did = "read" if other >= _READERS else "wrote"
    who = "several waves" if wave == _SEVERAL else f"wave {wave}"
    return f"races at byte {offset} of the LDS: {who} {did} it, and no barrier is between"


def too_soon(number: int, between: int, needed: int, unit: str, first: str) -> str:
    """Return what tells of a hazard: the register, how much is between the two instructions, and the first one."""
    return f"uses {_register(number)} {between} {unit} after {first}, and {needed} are needed"


def memory_race(address: int, other: int, places: Sequence[Place]) -> str:
    """Return who else was at a byte of memory."""
    group, wave, did = other >> 32, other >> 1 & 0x7FFFFFFF, "read" if other & 1 else "wrote"
    where = _relative(address, places)
    return f"races {where}: wave {wave} of workgroup {group - 1} {did} it, and nothing orders the two"


def _overwritten(number: int, states: int, _: Sequence[Place]) -> str:
    return f"writes {_register(number)} {states} wait states after a store that may still read it"


def _undefined(number: int, use: int, _: Sequence[Place]) -> str:
    return f"uses {_register(number)} {_USES[use]}, and nothing was written there"


def _unknown(value: int, is_mode: int, _: Sequence[Place]) -> str:
    what = f"sets MODE to {value:#x}" if is_mode else f"has the DPP control {value:#x}"
    return f"{what}, which the emulator does not know"


KINDS: dict[int, tuple[str, Callable[[int, int, Sequence[Place]], str]]] = {
    1: ("read outside", access("reads")),
    2: ("write outside", access("writes")),
    3: ("no wait", _no_wait),
    4: ("race", _race),
    5: ("LDS outside", lambda offset, size, _: f"uses {size} bytes from byte {offset} of the LDS on, past its end"),
    6: ("undefined", _undefined),
    7: ("unknown", _unknown),
    8: ("write protected", access("writes")),
    9: ("race in memory", memory_race),
    10: ("overwritten", _overwritten),
}
