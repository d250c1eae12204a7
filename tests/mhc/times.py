"""Hold the times that the kernel's process says to what the process that compares measures."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from kernel_matrix.job.case import RunningCase
from tensors import to_numpy
from tested import MisbehavedError

# A timed kernel runs again for about so long, so many times at most, and in so many tries.
SECONDS, MOST_RUNS, TRIES = 0.2, 1000, 3
SLOWER = 5.0  # times the claimed time, which is the least of many: an average run is not as slow
RUN_SECONDS, CALL_SECONDS = 20e-6, 5e-3  # for writing a value into the inputs, and for the call itself
MOST_VARIANTS, VARIANTS_BYTES = 8, 1 << 29  # of the first input, which the runs have in turns


def hold(case: RunningCase, run: Callable[[Any], Any], inputs: Any) -> None:
    """Run the kernel of the last race again and again, and measure it with the clock of this process.

    No two of these runs have the same inputs: the first input differs in every element from one run to the next. The
    number of runs is not known before. ``run`` runs the kernel once on other inputs: it says what the last of them must
    give. So a kernel that answers with what it has kept is wrong.

    Raises:
        MisbehavedError: the race says much less time than is measured, or an output does not follow its inputs.
    """
    claimed = case.metrics["time.run"]
    if not claimed > 0:
        raise MisbehavedError(f"the kernel's process says {claimed:g} s a run")
    runs = max(1, min(MOST_RUNS, round(SECONDS / claimed)))
    runs -= secrets.randbelow(runs // 8 + 1)
    size = inputs[0].numel() * inputs[0].element_size()
    added = [value(variant) for variant in range(max(2, min(MOST_VARIANTS, VARIANTS_BYTES // max(1, size))))]
    case.call("kernel_side:vary_raced", added=added)
    measured = float("inf")
    for attempt in range(TRIES):
        firsts = [value(attempt * MOST_RUNS + run) for run in range(runs)]
        measured = min(measured, measure(case, firsts))
        if measured <= limit(claimed, runs):
            break
    if measured > limit(claimed, runs):
        raise MisbehavedError(
            f"the kernel's process says {claimed:.3g} s a run; the process that compares measures {measured:.3g} s"
        )
    _, arrays = case.call("kernel_side:outputs_raced")
    first = inputs[0] + added[(runs - 1) % len(added)]
    first.view(-1)[0] = firsts[-1]
    for name, expected in run(inputs._replace(**{inputs._fields[0]: first}))._asdict().items():
        if expected is not None and not np.array_equal(arrays[name], to_numpy(expected).reshape(-1).view(np.uint8)):
            raise MisbehavedError(f"{name} does not follow its inputs where the kernel runs again and again")


def value(run: int) -> float:
    """Return the value that a run has in its inputs: another one for each of 3,072, which bf16 holds exactly."""
    return (1 + run % 128 / 128) / 2 ** (run // 128 % 12) * (-1) ** (run // 1536)


def measure(case: RunningCase, firsts: list[float]) -> float:
    """Return the seconds of one run, without those in which the kernel's process waited for a core.

    Threads that wait for each other wait for nobody else: the time is at least what all cores together need for what
    the process has computed.
    """
    delay, used, began = case.kernel_delay(), case.kernel_cpu_seconds(), time.perf_counter()
    case.call("kernel_side:run_raced", firsts=firsts)
    seconds = time.perf_counter() - began
    computed = (case.kernel_cpu_seconds() - used) / len(os.sched_getaffinity(0))
    return max(seconds - (case.kernel_delay() - delay), computed) / len(firsts)


def limit(claimed: float, runs: int) -> float:
    """Return the most seconds that a run may take, of so many in one call."""
    return SLOWER * claimed + RUN_SECONDS + CALL_SECONDS / runs
