"""Hold the results of the benchmark on the page to the raw results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kernel_matrix.audit import figures
from kernel_matrix.audit.figures import Difference
from kernel_matrix.audit.raw import Raw

_TIMES = ("median_us", "p5_us", "p95_us", "samples")


def of_bench(shown: Sequence[Mapping[str, Any]], raws: Mapping[str, Sequence[Raw]]) -> Iterator[Difference]:
    """Yield the results that are absent, and the times that no raw result has or that were not to be shown."""
    known = {
        (raw.case, raw.job.get("device", "")): raw
        for group in raws.values()
        for raw in sorted(group, key=lambda raw: raw.job.get("started", ""))
        if raw.case.startswith("bench:")
    }
    yield from figures.unequal("bench: results", len(shown), len(known))
    for one in shown:
        place = f"{one['platform']}/{one['target']}/{one['toolchain']}/{one['op']}.{one['direction']}/{one['case']}"
        raw = known.get((f"bench:{place}", one["device"]))
        if raw is None:
            yield f"bench: {place}", "a result", "none"
            continue
        is_timed = raw.outcome == "pass" and raw.action == "run"
        yield from figures.unequal(f"bench: {place}: it has a time", one["time"] is not None, is_timed)
        yield from figures.unequal(f"bench: {place}: rivals", bool(one["rivals"]) and not is_timed, False)
        for name, times in [("bench", one["time"]), *((f"bench.{rival}", t) for rival, t in one["rivals"].items())]:
            for key in _TIMES if times else ():
                yield from figures.unequal(
                    f"bench: {place}: {name}.{key}", times[key], raw.metrics.get(f"{name}.{key}")
                )
