"""Time a candidate by the judge's clock, in runs that are checked: a time that a cheat could make would be no time.

Every clock in the candidate's process is the candidate's. So the judge asks for few calls and for many, each with
values that no call had before, and the difference of its own two times belongs to the calls between. The last results
and some that chance picks when all are there are compared. The reference is timed in the same way, in
a sandbox of its own.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from kernel_matrix.tools.verify import naming
from kernel_matrix.tools.verify.judged import Judged
from kernel_matrix.tools.verify.sandbox.process import BoxProcess
from kernel_matrix.tools.verify.tasks.card import copy_seconds

_FEW, _MOST, _SECONDS, _DRAWS, _REPEATS = 4, 2000, 0.5, 3, 3
_FLOOR = 0.5  # of the time that a copy of all inputs and outputs takes: the cache of a card holds a part of them
_KEPT = 512 << 20  # bytes of results of one timing: none knows which the judge will look at
_LARGE = 256 << 20  # bytes that no cache holds


def seconds_of(running: Judged, process: BoxProcess) -> float:
    """Return the seconds of a call.

    Raises:
        WrongResultError: a result of a timed run is wrong.
    """
    draw = running.op.draw
    assert draw is not None
    draws = [running.given, *(dict(draw(running.sizes, f"/timed {n}")) for n in range(_DRAWS - 1))]

    def asked(runs: int) -> float:
        order = [((n + secrets.randbelow(2)) % _DRAWS, 1 - secrets.randbelow(1 << 20) / (1 << 21)) for n in range(runs)]
        return running.call_again(process, draws, order, sorted({runs - 1, secrets.randbelow(runs)}))

    return _difference(asked, min(_MOST, _KEPT // max(1, sum(one.nbytes for one in running.out.values()))))


def too_fast(running: Judged, seconds: float, device: str) -> list[naming.Hack]:
    """Return the hack that a time is which a card's memory does not allow."""
    size = sum(one.nbytes for one in (*running.given.values(), *running.out.values()))
    if device != "cpu" and size > _LARGE:
        floor = _FLOOR * copy_seconds(size, device)
        if seconds < floor:
            text = f"{seconds:.3g} s a call, where {size >> 20} MiB cannot be moved in less than {floor:.3g} s"
            return [naming.Hack(naming.CLOCK, text)]
    return []


def _difference(asked: Callable[[int], float], most: int) -> float:
    """Return the seconds of one call: the least difference between many calls and few, over the calls between."""
    asked(_FEW)
    few = min(asked(_FEW) for _ in range(_REPEATS))
    runs = 2 * _FEW
    while True:
        many = min(asked(runs) for _ in range(_REPEATS))
        if many - few > _SECONDS / 2 or runs >= most:
            return max(many - few, 1e-9) / (runs - _FEW)
        runs = min(most, 4 * runs)
