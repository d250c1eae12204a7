"""Time two functions that do the same work, under the same conditions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

# A race has at least so many rounds, and goes on for so long unless it has had twenty times as many.
ROUNDS, RACE_SECONDS = 10, 2.0
# Idle threads of a parallel runtime spin before they sleep (GNU's OpenMP for some ms, LLVM's and Intel's for 200 ms),
# and would take the cores from the threads of the one that is timed next.
REST_SECONDS = 0.25


def race(run: Callable[[], object], baseline: Callable[[], object], *, rest: bool) -> dict[str, float]:
    """Time ``run`` and ``baseline`` in turns; return the least time of each, their ratio and the number of rounds.

    Both have to wait until their device is done. They take turns, so that a slower machine slows both. The least time
    counts, since whatever disturbs a run only adds to it. With ``rest`` (on a CPU), each begins when the threads of the
    other are at rest. Each runs once before it is timed: its own threads are awake then, and its memory is near.
    """
    pause = REST_SECONDS if rest else 0.0
    # Records call the baseline "eager"; earlier records are read by that name too.
    least = {"run": math.inf, "eager": math.inf}
    began, rounds = time.perf_counter(), 0
    while rounds < ROUNDS or (time.perf_counter() - began < RACE_SECONDS and rounds < 20 * ROUNDS):
        for name, runner in (("run", run), ("eager", baseline)):
            time.sleep(pause)
            runner()
            start = time.perf_counter()
            runner()
            least[name] = min(least[name], time.perf_counter() - start)
        rounds += 1
    metrics = {f"time.{name}": seconds for name, seconds in least.items()}
    return {**metrics, "time.ratio": least["eager"] / least["run"], "time.rounds": float(rounds)}
