"""Time runs on a CPU: when the threads of earlier runs are at rest; and measure what other processes use meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kernel_matrix.job.race import wait_for_rest
from kernel_matrix.tools.bench.inside.protocol import Run
from kernel_matrix.tools.bench.inside.summary import summary

QUIET = 0.05  # of the machine's CPU time may go to other processes
_BEHIND = 10  # samples right behind another operation
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_STAT = Path("/proc/stat")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class BusyMeter:
    """Tell which share of the machine's CPU time other processes used since the last look."""

    def __init__(self, stat: Path = _STAT) -> None:
        self._stat = stat
        self._last = self._look()

    def share(self) -> float | None:
        """Return the share since the last call; None where the system does not say it, or no time has passed."""
        last, self._last = self._last, self._look()
        if last is None or self._last is None or self._last[0] <= last[0]:
            return None
        all_time, busy, own = (now - before for now, before in zip(self._last, last, strict=True))
        return min(1.0, max(0.0, busy - own) / all_time)

    def _look(self) -> tuple[float, float, float] | None:
        """Return the seconds of all CPUs, those in which they worked, and those that this process used."""
        try:
            line = self._stat.read_text().splitlines()[0].split()
            ticks = [int(value) for value in line[1:9]]
        except (OSError, ValueError, IndexError):
            return None
        own = os.times()
        idle = ticks[3] + ticks[4]
        seconds = 1 / os.sysconf("SC_CLK_TCK")
        return sum(ticks) * seconds, (sum(ticks) - idle) * seconds, own.user + own.system


class CpuClock:
    """Time a run by the clock of the process, when the threads of the run before are at rest.

    ``copier`` makes a run that copies bytes with all threads, and ``before`` is an operation of the framework whose
    threads a run finds awake in a program: how long a run takes right behind it is a figure of its own.
    """

    most_copies = 8

    def __init__(self, copier: Callable[[int], Run], before: Run, cache_bytes: int | None = None) -> None:
        self._copier = copier
        self._before = before
        self._meter = BusyMeter()
        self.cache_bytes = cache_bytes or last_cache()

    @property
    def method(self) -> str:
        """Say in a sentence how it times."""
        return (
            "Single calls by the clock of the process, each on the next copy of the inputs, each when the threads of "
            "the call before are at rest"
        )

    def sampler(self, runs: Sequence[Run]) -> Callable[[], float]:
        """Return a function that times the next of the runs."""
        place = -1

        def sample() -> float:
            nonlocal place
            place = (place + 1) % len(runs)
            wait_for_rest()
            return _seconds(runs[place])

        return sample

    def host_seconds(self, _: Sequence[Run], /) -> None:
        """Return None: a call on a CPU returns when it is done."""
        return

    def more(self, runs: Sequence[Run], /) -> Mapping[str, float]:
        """Return the median time right behind an operation of the framework, whose threads are still awake."""
        samples = []
        for place in range(_BEHIND):
            self._before()
            samples.append(_seconds(runs[place % len(runs)]))
        return {"behind_us": summary(samples).median * 1e6}

    def copy(self, size: int) -> Run:
        """Return a run that copies so many bytes with all threads."""
        return self._copier(size)

    def state(self) -> Mapping[str, str]:
        """Return the load of the machine, and what its threads do while they wait."""
        policy = os.environ.get("OMP_WAIT_POLICY", "")
        return {"OMP_WAIT_POLICY": policy or "not set: waiting threads spin", "load": f"{os.getloadavg()[0]:.2f}"}

    def disturbance(self) -> str:
        """Return what share of the CPU time others used since the last call, if it was more than a little."""
        share = self._meter.share()
        if share is None:
            return "whether other processes used the CPU is not known"
        return f"other processes used {share:.0%} of the CPU time" if share > QUIET else ""

    def release(self) -> None:
        """Do nothing: the memory of a CPU comes back by itself."""


def last_cache(folder: Path = _CACHES) -> int:
    """Return the bytes of the last cache of the CPU; 32 MiB where the system does not say it."""
    sizes = []
    for size in folder.glob("index*/size"):
        text = size.read_text().strip()
        if text[:-1].isdecimal() and text[-1:] in _UNITS:
            sizes.append(int(text[:-1]) * _UNITS[text[-1]])
    return max(sizes, default=32 << 20)


def _seconds(run: Run) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
