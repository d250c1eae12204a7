"""Check the contenders of one subject, and then time those that are right, in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernel_matrix.tools.bench.inside.contenders import Judgement, Rules, judge
from kernel_matrix.tools.bench.inside.protocol import AbsentError, Clock, Contender, Run, Subject, Yardstick
from kernel_matrix.tools.bench.inside.summary import copies_needed, summary

_WARM = 2  # samples that are not kept: the first runs find cold caches and low clocks
_ROUND = 5  # samples that a contender takes before it is the next one's turn


@dataclass(frozen=True)
class Amount:
    """The samples of a contender: at least ``least``, then until ``most`` or ``seconds`` are reached."""

    least: int
    most: int
    seconds: float

    def is_enough(self, samples: int, seconds: float) -> bool:
        """Return whether so many samples, which took so long, are enough."""
        return samples >= self.most or (samples >= self.least and seconds >= self.seconds)


@dataclass
class Result:
    """The end of one contender. A time is only there if its outcome is ``pass``."""

    outcome: str
    message: str = ""
    stage: str = ""
    figures: dict[str, float] = field(default_factory=dict)


def measure(
    subject: Subject,
    names: Sequence[str],
    own: Sequence[str],
    clock: Clock,
    rules: Rules,
    amount: Amount,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Result]:
    """Return the result of each contender by name; ``own`` are those that are the package's kernels."""
    yardsticks = subject.yardsticks()
    results: dict[str, Result] = {}
    right: dict[str, Contender] = {}
    for name in names:
        say(name)
        results[name], contender = _checked(subject, name, yardsticks, rules, own=name in own)
        if contender is not None:
            right[name] = contender
    copies = copies_needed(subject.copy_bytes, clock.cache_bytes, clock.most_copies)
    _time(subject, right, results, clock, amount, copies, say)
    return results


def _checked(
    subject: Subject, name: str, yardsticks: Mapping[str, Yardstick], rules: Rules, *, own: bool
) -> tuple[Result, Contender | None]:
    """Run a contender once and judge its outputs; return no contender if it is not to be timed."""
    began = time.perf_counter()
    try:
        contender = subject.contender(name)
        distances = contender.distances()
    except AbsentError as reason:
        return Result("unavailable", str(reason)), None
    except Exception as error:  # whatever a contender does, the others are timed
        return Result("error", _words(error), getattr(error, "stage", "launch")), None
    seconds = time.perf_counter() - began
    judgement = judge(distances, yardsticks, rules, own=own)
    figures = _figures_of(judgement) | {"first_call_s": seconds}
    if judgement.faults:
        return Result("fail", "; ".join(judgement.faults), figures=figures), None
    return Result("pass", figures=figures), contender


def _figures_of(judgement: Judgement) -> dict[str, float]:
    return {"rel_fro": judgement.rel_fro, "limit_share": judgement.share}


def _time(
    subject: Subject,
    contenders: Mapping[str, Contender],
    results: dict[str, Result],
    clock: Clock,
    amount: Amount,
    copies: int,
    say: Callable[[str], None],
) -> None:
    """Time the contenders in turns, so that a slower device slows all of them, and keep the figures."""
    samplers: dict[str, Run] = {}
    for name, contender in contenders.items():
        say(name)
        try:
            runs = contender.runs(copies)
            more = dict(clock.more(runs))
            host = clock.host_seconds(runs)
            samplers[name] = clock.sampler(runs)
        except Exception as error:  # it cannot be timed so; the others can
            results[name] = Result("error", _words(error), getattr(error, "stage", "launch"))
            continue
        results[name].figures |= more | ({} if host is None else {"host_us": host * 1e6})
    say("")  # all of them from here on
    samples = samples_in_turns(samplers, amount)
    for name, values in samples.items():
        try:
            figures = summary(values)
        except ValueError as error:
            results[name] = Result("error", f"it cannot be timed: {error}", "launch")
            continue
        results[name].figures |= {
            "median_us": figures.median * 1e6,
            "p5_us": figures.p5 * 1e6,
            "p95_us": figures.p95 * 1e6,
            "samples": figures.samples,
            "copies": copies,
            "rotated_bytes": copies * subject.copy_bytes,
        }


def samples_in_turns(samplers: Mapping[str, Run], amount: Amount) -> dict[str, list[float]]:
    """Return the samples of each contender, taken a few at a time in turns."""
    samples: dict[str, list[float]] = {name: [] for name in samplers}
    spent = dict.fromkeys(samplers, 0.0)
    for sample in samplers.values():
        for _ in range(_WARM):
            sample()
    waiting = list(samplers)
    while waiting:
        for name in list(waiting):
            began = time.perf_counter()
            samples[name] += [_number(samplers[name]()) for _ in range(_ROUND)]
            spent[name] += time.perf_counter() - began
            if amount.is_enough(len(samples[name]), spent[name]):
                waiting.remove(name)
    return samples


def bandwidth(clock: Clock, size: int, amount: Amount) -> dict[str, float]:
    """Return the bytes that the device reads and writes in a second while it copies, in GB/s, with their spread."""
    sample = clock.sampler([clock.copy(size)])
    values = samples_in_turns({"copy": sample}, amount)["copy"]
    figures = summary(values)
    rate = {"copy_gbs": figures.median, "copy_p5_gbs": figures.p95, "copy_p95_gbs": figures.p5}
    return {name: 2 * size / seconds / 1e9 for name, seconds in rate.items()} | {"copy_bytes": float(size)}


def _number(value: Any) -> float:
    return float(value)


def _words(error: Exception) -> str:
    """Return the last words of an error: its class and the first line of its text."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:500]
