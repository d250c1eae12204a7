"""Hold the times that the kernel's process says to what the process that compares measures."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from kernel_matrix.job.case import RunningCase
from tensors import to_numpy
from under_test import MisbehavedError

# A timed kernel runs again for about so long, so many times at most, and in so many tries.
SECONDS, MOST_RUNS, TRIES = 0.2, 1000, 3
SLOWER = 5.0  # times the claimed time, which is the least of many: an average run is not as slow
RUN_SECONDS, CALL_SECONDS = 20e-6, 5e-3  # for writing a value into the inputs, and for the call itself


def hold(case: RunningCase, run: Callable[[Any], Any], inputs: Any) -> None:
    """Run the kernel of the last race again and again, and measure it with the clock of this process.

    Each of these runs has another value in its inputs. ``run`` runs the kernel once on other inputs: it says what the
    last of them must give. So a kernel that answers with what it has kept is wrong.

    Raises:
        MisbehavedError: the race says much less time than is measured, or an output does not follow its inputs.
    """
    claimed = case.metrics["time.run"]
    if not claimed > 0:
        raise MisbehavedError(f"the kernel's process says {claimed:g} s a run")
    runs = max(1, min(MOST_RUNS, round(SECONDS / claimed)))
    firsts = [*(run % 7 / 8 for run in range(1, runs)), 1.0]
    measured = measure(case, firsts)
    for _ in range(TRIES - 1):
        if measured <= limit(claimed, runs):
            break
        measured = min(measured, measure(case, firsts))
    if measured > limit(claimed, runs):
        raise MisbehavedError(
            f"the kernel's process says {claimed:.3g} s a run; the process that compares measures {measured:.3g} s"
        )
    _, arrays = case.call("kernel_side:outputs_raced")
    first = inputs[0].clone()
    first.view(-1)[0] = firsts[-1]
    for name, expected in run(inputs._replace(**{inputs._fields[0]: first}))._asdict().items():
        if expected is not None and not np.array_equal(arrays[name], to_numpy(expected).reshape(-1).view(np.uint8)):
            raise MisbehavedError(f"{name} does not follow its inputs where the kernel runs again and again")


def measure(case: RunningCase, firsts: list[float]) -> float:
    """Return the seconds of one run, without those in which the kernel's process waited for a core."""
    delay, began = case.kernel_delay(), time.perf_counter()
    case.call("kernel_side:run_raced", firsts=firsts)
    seconds = time.perf_counter() - began
    return (seconds - (case.kernel_delay() - delay)) / len(firsts)


def limit(claimed: float, runs: int) -> float:
    """Return the most seconds that a run may take, of so many in one call."""
    return SLOWER * claimed + RUN_SECONDS + CALL_SECONDS / runs
