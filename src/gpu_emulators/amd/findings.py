"""The kinds of findings in AMD's machine code, each with its sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpu_emulators.common.findings import Place, access, memory_race, relative

# Of a missing wait: numbers from the first one on mean scalar registers; numbers from the others on mean no register.
_SCALARS, _BARRIER, _IN_FLIGHT = 2000, 3000, 4000
_READERS = 0x10000  # of a race: the wave was a reader
_SEVERAL = 0xFFFF
_LANES = 64
_ACCUMULATORS = 1024  # numbers from here on mean them
_ENCODED, _OF_CDNA = 256, 512  # the first number of an accumulator in a record, and the number behind the last one
_OF_REGISTERS = (3, 6, 10)  # kinds of findings
# What only a host can answer: the argument that leads there, and who asks.
QUEUE = "hidden_queue_ptr"
HOST = {
    "hidden_hostcall_buffer": "printf, or the message of an assertion that does not hold,",
    "hidden_printf_buffer": "printf",
    "hidden_heap_v1": "malloc or free",
    "hidden_default_queue": "a launch by the kernel",
    "hidden_multigrid_sync_arg": "a barrier of the grid",
    QUEUE: "the queue of the launch",
}
FIRST_OF_HOST, PAGE_OF_HOST = 1 << 60, 4096  # where those arguments lead: a page for each, in their order
ASKS_HOST = 15
_SPECIAL = {106: "vcc", 107: "vcc", 126: "exec", 127: "exec", 128: "MODE"}
_USES = ("in an address", "as data of a store", "as a scalar")


def number_of(kind: int, number: int, family: str) -> int:
    """Return the first number of a finding with that of an accumulator where it means one."""
    is_accumulator = family == "cdna" and kind in _OF_REGISTERS and _ENCODED <= number < _OF_CDNA
    return number + _ACCUMULATORS - _ENCODED if is_accumulator else number


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


def _overwritten(number: int, states: int, _: Sequence[Place]) -> str:
    return f"writes {_register(number)} {states} wait states after a store that may still read it"


def _undefined(number: int, use: int, _: Sequence[Place]) -> str:
    return f"uses {_register(number)} {_USES[use]}, and nothing was written there"


def _unknown(value: int, what: int, _: Sequence[Place]) -> str:
    did = ("has the DPP control", "sets MODE to", "goes to the address", "means the register")[what]
    return f"{did} {value:#x}, which the emulator does not know"


def _same_place(address: int, lane: int, places: Sequence[Place]) -> str:
    where = relative(address, places)
    return f"stores {where}, where lane {lane} of the same wave stores another value, and nothing orders the two"


def _left_out(lanes: int, *_: Any) -> str:
    return f"is passed without lanes {_listed(lanes)}, which go on later: they were elsewhere in the code"


def _no_end(count: int, lanes: int, _: Sequence[Place]) -> str:
    return f"begins {count} instructions that lanes {_listed(lanes)} repeat without an end"


def _trap(lanes: int, *_: Any) -> str:
    return f"ends lanes {_listed(lanes)} and the launch: an assertion that does not hold, or an abort"


def _asks_host(address: int, *_: Any) -> str:
    who = list(HOST.values())[(address - FIRST_OF_HOST) // PAGE_OF_HOST]
    return f"asks the host: {who} is not known, as no host answers"


def _listed(lanes: int) -> str:
    """Return the lanes of a mask as ranges, such as 0-31."""
    edges = [lane for lane in range(_LANES + 1) if (lanes >> lane ^ lanes << 1 >> lane) & 1]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return ", ".join(str(first) if end == first + 1 else f"{first}-{end - 1}" for first, end in pairs) or "none"


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
    11: ("same place", _same_place),
    12: ("divergent", _left_out),
    13: ("no end", _no_end),
    14: ("trap", _trap),
    ASKS_HOST: ("host", _asks_host),
}
