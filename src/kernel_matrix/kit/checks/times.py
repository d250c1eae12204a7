"""The times of a timed case: the race, and what the process that compares measures by its own clock."""

from __future__ import annotations

import os
import secrets
import time

import numpy as np

from kernel_matrix.kit import draws
from kernel_matrix.kit.misbehaviour import MisbehavedError
from kernel_matrix.kit.running import Running

_SIDE = "kernel_matrix.kit.raced"
_SECONDS, _MOST_RUNS, _TRIES = 0.2, 1000, 3  # a timed kernel runs again for about so long
_SLOWER = 5.0  # times the claimed time, which is the least of many: an average run is not as slow
_RUN_SECONDS, _CALL_SECONDS, _COPY = 50e-6, 5e-3, 1e9  # for a run, for the call itself; bytes a second of a copy


def times(running: Running) -> None:
    """Race the kernel against plain code, and hold what its process says to this process's clock."""
    case, op = running.case, running.op
    plain = f"{op.reference.__module__}:{op.reference.__name__}"
    kernel = running.kernel(running.sizes)
    with case.quiet():
        found, _ = case.call(f"{_SIDE}:race", running.given, kernel=kernel, asked=running.asked, plain=plain)
        case.record_race(found)
        if running.frame.lays and not op.in_place and not all(kind.whole for kind in op.inputs.values()):
            _hold(running)


def _hold(running: Running) -> None:
    """Run the kernel of the race on inputs that change from run to run, and measure it.

    Raises:
        MisbehavedError: it takes longer than the race says.
        WrongResultError: its result is not one of its last inputs.
    """
    claimed = running.case.metrics["time.run"]
    first = next(name for name, one in running.given.items() if not draws.is_whole(one) and one.size)
    others = {"0": running.given[first], "1": draws.drawn(running.case, running.op, running.sizes, "/raced")[first]}
    measured, allowed = np.inf, 0.0
    for _ in range(_TRIES):
        runs = max(2, min(_MOST_RUNS, round(_SECONDS / max(claimed, 1e-9))))
        runs -= secrets.randbelow(runs // 8 + 1)
        firsts = [_value(number) for number in range(runs)]
        seconds, out = _measured(running, others, first, firsts)
        measured = min(measured, seconds)
        allowed = _SLOWER * claimed + _RUN_SECONDS + running.given[first].nbytes / _COPY + _CALL_SECONDS / runs
        if measured <= allowed:
            break
    if measured > allowed:
        text = f"the kernel's process says {claimed:.3g} s a run; the process that compares measures {measured:.3g} s"
        raise MisbehavedError("kit-times", text)
    last = others[str((runs - 1) % 2)].copy()
    last.reshape(-1)[:1] = firsts[-1]
    values = {**running.given, first: last}
    what = "the results do not follow the inputs where the kernel runs again and again"
    running.inside("kit-times", out, running.numbers(values), what)


def _value(run: int) -> float:
    """Return the first element of a run: another one for each of 3,072, which bf16 holds exactly."""
    return (1 + run % 128 / 128) / 2.0 ** (run // 128 % 12) * (-1.0 if run // 1536 % 2 else 1.0)


def _measured(running: Running, others: draws.Arrays, name: str, firsts: list[float]) -> tuple[float, draws.Arrays]:
    """Return the seconds of a run, without those in which the kernel's process waited for a core, and the results."""
    case = running.case
    delay, used, began = case.kernel_delay(), case.kernel_cpu_seconds(), time.perf_counter()
    _, out = case.call(f"{_SIDE}:again", others, name=name, firsts=firsts)
    seconds = time.perf_counter() - began
    computed = (case.kernel_cpu_seconds() - used) / len(os.sched_getaffinity(0))
    return max(seconds - (case.kernel_delay() - delay), computed) / len(firsts), out
