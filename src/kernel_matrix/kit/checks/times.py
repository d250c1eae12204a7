"""The times of a timed case: the race, and what the process that compares measures by its own clock."""

from __future__ import annotations

import os
import secrets
import time

import numpy as np

from kernel_matrix.kit import draws
from kernel_matrix.kit.layouts import same_bytes
from kernel_matrix.kit.misbehaviour import MisbehavedError
from kernel_matrix.kit.running import Running

_SIDE = "kernel_matrix.kit.raced"
REPEATS = 10  # further runs of a timed case, which are not timed; their outputs must have the same bits
_SECONDS, _MOST_RUNS, _TRIES = 0.2, 1000, 3  # a timed kernel runs again for about so long
_SLOWER = 5.0  # times the claimed time, which is the least of many: an average run is not as slow
_RUN_SECONDS, _CALL_SECONDS = 50e-6, 5e-3  # for writing a value into the inputs, and for the call itself
_MOST_VARIANTS, _VARIANTS_BYTES = 8, 1 << 29  # of an input, which the runs have in turns


def times(running: Running) -> None:
    """Race the kernel against the baseline, and hold what its process says to this process's clock."""
    case, op = running.case, running.op
    plain = f"{op.reference.__module__}:{op.reference.__name__}"
    kernel = running.kernel(running.sizes)
    with case.quiet():
        options = {"kernel": kernel, "asked": running.asked, "plain": plain, "repeats": REPEATS}
        found, results = case.call(f"{_SIDE}:race", running.given, **options)
        case.record_race(found["times"])
        if found["threads"] is not None:
            case.facts["threads"] = str(found["threads"])
        _hold_repeats(running, results)
        if running.frame.lays and not op.in_place and not all(kind.whole for kind in op.inputs.values()):
            _hold(running)


def _hold_repeats(running: Running, results: draws.Arrays) -> None:
    """Hold the results of runs one after the other to what the first run gave."""
    for number in range(REPEATS):
        out = {name: results[f"{number} {name}"] for name in running.out}
        running.case.record_repeat(same=all(same_bytes(one, running.out[name]) for name, one in out.items()))
        running.same("kit-other-bits", out, f"one of {REPEATS} runs one after the other gives other results")


def _hold(running: Running) -> None:
    """Run the kernel of the race on inputs that change from run to run, and measure it.

    Raises:
        MisbehavedError: it takes longer than the race says.
        WrongResultError: its result is not one of its last inputs.
    """
    claimed = running.case.metrics["time.run"]
    if not claimed > 0:
        raise MisbehavedError("kit-times", f"the kernel's process says {claimed:g} s a run")
    floats = [name for name, one in running.given.items() if not draws.is_whole(one) and one.size]
    first = floats[-1] if any(kind.saved for kind in running.op.inputs.values()) else floats[0]  # none that is saved of
    size = running.given[first].nbytes
    added = [_value(number) for number in range(max(2, min(_MOST_VARIANTS, _VARIANTS_BYTES // max(1, size))))]
    running.case.call(f"{_SIDE}:vary", name=first, added=added)
    runs = max(2, min(_MOST_RUNS, round(_SECONDS / claimed)))
    runs -= secrets.randbelow(runs // 8 + 1)
    measured, allowed = float("inf"), _SLOWER * claimed + _RUN_SECONDS + _CALL_SECONDS / runs
    for attempt in range(_TRIES):
        firsts = [_value(attempt * _MOST_RUNS + number) for number in range(runs)]
        seconds, out = _measured(running, first, firsts)
        measured = min(measured, seconds)
        if measured <= allowed:
            break
    if measured > allowed:
        text = f"the kernel's process says {claimed:.3g} s a run; the process that compares measures {measured:.3g} s"
        raise MisbehavedError("kit-times", text)
    last = np.add(running.given[first], added[(runs - 1) % len(added)]).astype(running.given[first].dtype)
    last.reshape(-1)[:1] = firsts[-1]
    values = {**running.given, first: last}
    what = "the results do not follow the inputs where the kernel runs again and again"
    running.inside("kit-times", out, running.numbers(values), what)


def _value(run: int) -> float:
    """Return the first element of a run: another one for each of 3,072, which bf16 holds exactly."""
    return (1 + run % 128 / 128) / 2.0 ** (run // 128 % 12) * (-1.0 if run // 1536 % 2 else 1.0)


def _measured(running: Running, name: str, firsts: list[float]) -> tuple[float, draws.Arrays]:
    """Return the seconds of a run, without those in which the kernel's process waited for a core, and the results.

    Threads that wait for each other wait for nobody else: the time is at least what all cores together need for what
    the process has computed.
    """
    case = running.case
    delay, used, began = case.kernel_delay(), case.kernel_cpu_seconds(), time.perf_counter()
    _, out = case.call(f"{_SIDE}:again", name=name, firsts=firsts)
    seconds = time.perf_counter() - began
    computed = (case.kernel_cpu_seconds() - used) / len(os.sched_getaffinity(0))
    return max(seconds - (case.kernel_delay() - delay), computed) / len(firsts), out
