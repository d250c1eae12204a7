"""Count the time that a process would take if it had this machine to itself: limits are limits of this time.

Others use the cores of a machine too: what takes a minute alone takes ten where enough others work. So a limit does
not count the time in which the process and those below it were ready to run and had no core. It counts the time in
which they wait for something else, such as a device, a lock or an answer that never comes: a case that hangs ends.

Linux counts the waiting of each thread (``schedstat``). Where nothing is known of it, a limit counts all time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from kernel_matrix.base.waiting import wait_until
from kernel_matrix.job.processes import scheduled_below
from kernel_matrix.run.executors import Child

_SECONDS = 0.25  # between two looks at the threads, and at least
_PART_OF_THE_TIME = 20  # to look takes at most one part of so many
_MOST = 0.9  # of the time that are not counted: what hangs ends on a machine that never rests, too
_LATE = "late"


class OwnTime:
    """Tell how much of the time that goes by a process had to wait for a core."""

    def __init__(self, child: Child) -> None:
        """``child`` begins now."""
        self._child = child
        self._looked = self._next = time.monotonic()
        self._seen: Mapping[int, tuple[float, float]] = {}

    def lost(self) -> float:
        """Return the seconds since the last look that the process lost to others; 0 if too little time has gone by."""
        now = time.monotonic()
        if now < self._next:
            return 0.0
        pid = self._child.pid
        threads = scheduled_below(pid) if pid else {}
        passed, self._looked = now - self._looked, now
        self._next = now + max(_SECONDS, _PART_OF_THE_TIME * (time.monotonic() - now))
        before, self._seen = self._seen, threads
        ran, waited = (
            sum(max(0.0, new[kind] - before.get(thread, (0.0, 0.0))[kind]) for thread, new in threads.items())
            for kind in (0, 1)
        )
        return lost_of(passed, ran, waited, cores())


def lost_of(passed: float, ran: float, waited: float, cores: int) -> float:
    """Return how much of the seconds that ``passed`` was lost by threads that ``ran`` and ``waited`` so long, together.

    Alone they would have had as many cores as they were ready to use, up to all. What they did not get of that is lost.
    """
    if passed <= 0:
        return 0.0
    at_once = max(1.0, min(cores, (ran + waited) / passed))
    return min(max(0.0, min(passed, ran + waited) - ran / at_once), _MOST * passed)


def wait_for_end(child: Child, seconds: float) -> int | None:
    """Return the exit status of a process; None if it has none after so many seconds of its own. Then it is ended."""
    own, ends = OwnTime(child), time.monotonic() + seconds

    def ended() -> int | str | None:
        nonlocal ends
        if (status := child.poll()) is not None:
            return status
        ends += own.lost()
        return _LATE if time.monotonic() >= ends else None

    try:
        end = wait_until(ended)
    finally:
        child.kill()
    return end if isinstance(end, int) else None


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load() -> str:
    """Return how busy this machine is, in words."""
    return f"load {os.getloadavg()[0]:.0f} on {cores()} cores"
