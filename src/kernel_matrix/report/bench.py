"""Records of the benchmark -> what the page says of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kernel_matrix.report.document import BenchResult, BenchTime
from kernel_matrix.results.present import Present
from kernel_matrix.store.record import Record, is_bench_record
from kernel_matrix.store.rows import parts_of

_FIGURES = (
    *("floor_us", "floor_share", "copy_gbs", "host_us", "behind_us", "first_call_s", "peak_x", "limit_share"),
    *("copies", "rotated_bytes", "traffic_bytes", "baseline_ratio"),
)
_TRIED = ("pass", "fail", "error")
_MOST_OF_A_MESSAGE = 500  # characters


def bench_results(records: Iterable[Record], presence: Present | None = None) -> tuple[BenchResult, ...]:
    """Return the results of the benchmark, the latest of each case and device."""
    latest: dict[tuple[str, str], Record] = {}
    for record in records:
        if not is_bench_record(record) or not any(parts_of(record)):
            continue
        key = record.case, record.job.get("device", "")
        before = latest.get(key)
        if before is None or before.job.get("started", "") <= record.job.get("started", ""):
            latest[key] = record
    return tuple(_result(record, presence) for record in latest.values())


def _result(record: Record, presence: Present | None) -> BenchResult:
    platform, target, toolchain, op, direction, name = parts_of(record)
    metrics, job = record.metrics, record.job
    timed = record.outcome == "pass" and record.action == "run"
    return BenchResult(
        platform=platform,
        target=target,
        toolchain=toolchain,
        op=op,
        direction=direction,
        case=name,
        outcome=record.outcome,
        message=record.message[:_MOST_OF_A_MESSAGE],
        stale=presence.stale(platform, toolchain, job) if presence and record.outcome in _TRIED else "",
        device=job.get("device", ""),
        commit=job.get("commit", ""),
        started=job.get("started", "")[:40],
        quick=job.get("bench") == "quick",
        disturbed=record.facts.get("bench.disturbed", ""),
        time=_time(metrics, "bench") if timed else None,
        figures={key: metrics[f"bench.{key}"] for key in _FIGURES if f"bench.{key}" in metrics},
        rivals=_rivals(metrics) if timed else {},
        absent={
            key.removeprefix("bench.rival."): text[:_MOST_OF_A_MESSAGE]
            for key, text in record.facts.items()
            if key.startswith("bench.rival.")
        },
        facts={key.removeprefix("bench."): text for key, text in record.facts.items() if _is_own(key)},
    )


def _is_own(key: str) -> bool:
    return key.startswith("bench.") and not key.startswith("bench.rival.") and key != "bench.disturbed"


def _rivals(metrics: Mapping[str, float]) -> dict[str, BenchTime]:
    """Return the times of the rivals, by name, that were timed with it on the same device."""
    names = [key.removeprefix("bench.ratio.") for key in metrics if key.startswith("bench.ratio.")]
    times = {name: _time(metrics, f"bench.{name}") for name in names}
    return {name: time for name, time in times.items() if time is not None}


def _time(metrics: Mapping[str, float], name: str) -> BenchTime | None:
    figures = {key: metrics.get(f"{name}.{key}") for key in ("median_us", "p5_us", "p95_us", "samples")}
    if any(value is None or not value > 0 for value in figures.values()):
        return None
    return BenchTime.model_validate({**figures, "rel_fro": metrics.get(f"{name}.rel_fro")})
