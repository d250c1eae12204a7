"""Findings in PTX: what a kernel did that a card would not have told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpu_emulators.common.findings import Place, access, memory_race, relative

_USES = ("in an address", "as data of a store", "as a condition")
_AGENTS = ("", "a copy (cp.async) of ", "a product (wgmma) of ", "a copy in bulk of ", "a copy in bulk")


def _meeting(offset: int, other: int, _: Sequence[Place]) -> str:
    kind, was_read, wave = other >> 32, other >> 16 & 1, other & 0xFFFF
    who = _AGENTS[kind] + (f"warp {wave}" if wave != 0xFFFF else "")
    did = "reads" if was_read else "writes"
    order = "no barrier is between" if kind == 0 else "its end is not waited for"
    return f"meets {who} at byte {offset} of the shared memory, which {did} it, and {order}"


def described(register: Callable[[int], str]) -> dict[int, tuple[str, Callable[[int, int, Sequence[Place]], str]]]:
    """Return the kinds of findings, each with its sentence; ``register`` names a register."""
    return {
        1: ("read outside", access("reads")),
        2: ("write outside", access("writes")),
        3: ("no wait", _meeting),
        4: ("race", _meeting),
        5: (
            "shared memory outside",
            lambda offset, size, _: f"uses {size} bytes from byte {offset} of the shared memory on, past its end",
        ),
        6: ("undefined", lambda one, use, _: f"uses {register(one)} {_USES[use]}, and nothing was written there"),
        7: ("misaligned", lambda address, size, _: f"needs an address that {size} divides, and has {address:#x}"),
        8: ("write protected", access("writes")),
        9: ("race in memory", memory_race),
        10: ("divergent", lambda *_: "is met by some threads of a warp only, and needs all"),
        11: ("deadlock", lambda *_: "waits for what no warp does any more"),
        12: ("trap", lambda *_: "is reached"),
        13: (
            "no wait",
            lambda one, *_: f"uses {register(one)} before the product that fills it is known to have ended",
        ),
        15: (
            "same place",
            lambda address, lane, places: (
                f"stores {relative(address, places)}, where another thread of the warp than {lane} stores another value"
            ),
        ),
        16: ("unknown", lambda at, *_: f"uses the tensor map at {at:#x}, whose fields are not known, or not written"),
        14: ("no barrier", lambda address, *_: f"uses the barrier at byte {address}, which nobody has initialised"),
    }
