"""Answers of the benchmark's process -> the record of each toolchain. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kernel_matrix.store.record import Record
from kernel_matrix.tools.bench.bench_plan import BenchCase, Place

_SPREAD = ("median_us", "p5_us", "p95_us", "samples", "rel_fro")


def record_of(
    case: BenchCase, place: Place, toolchain: str, answer: Mapping[str, Any], device: Mapping[str, Any], baseline: str
) -> Record:
    """Return the record of a case for one toolchain; ``baseline`` is the rival that is the package's baseline.

    ``device`` is what the process has said of the device: the bandwidth of a copy and facts. A figure of a time is only
    there if the kernel was timed; a rival that was timed with it has its figures, and another rival the reason as a
    fact.
    """
    results, own = answer["results"], answer["own"][toolchain]
    result, identity = results[own], case.id_at(place, toolchain)
    facts = {f"bench.{name}": str(value) for name, value in {**device["facts"], **answer["state"]}.items()}
    facts["bench.contender"] = own
    if disturbance := answer["disturbance"]:
        facts["bench.disturbed"] = disturbance
    # An output that nobody wrote has an infinite error: the message says so, and a figure of a case is finite.
    figures = {name: float(value) for name, value in result["figures"].items()}
    metrics = {f"bench.{name}": value for name, value in figures.items() if math.isfinite(value)}
    if result["outcome"] == "pass":
        metrics |= _of_device(metrics["bench.median_us"], answer, device["bandwidth"])
        metrics |= _of_rivals(own, results, facts)
        if (rival := results.get(baseline)) and rival["outcome"] == "pass":
            seconds = rival["figures"]["median_us"]
            metrics |= {"bench.baseline_us": seconds, "bench.baseline_ratio": seconds / metrics["bench.median_us"]}
    if "bench.peak_bytes" in metrics:
        metrics["bench.peak_x"] = metrics["bench.peak_bytes"] / answer["x_bytes"]
    action = "run" if result["outcome"] in ("pass", "fail", "error") else ""
    return Record(
        identity,
        result["outcome"],
        action=action,
        stage=result["stage"],
        message=result["message"],
        seconds=answer["seconds"],
        metrics=metrics,
        facts=facts,
    )


def _of_device(median: float, answer: Mapping[str, Any], bandwidth: Mapping[str, float]) -> dict[str, float]:
    """Return the time that the device needs to read and write what nothing can do without, and the share of it."""
    floor = answer["traffic"] / bandwidth["copy_gbs"] / 1e3
    figures = {"traffic_bytes": answer["traffic"], "floor_us": floor, "floor_share": floor / median, **bandwidth}
    return {f"bench.{name}": float(value) for name, value in figures.items()}


def _of_rivals(own: str, results: Mapping[str, Any], facts: dict[str, str]) -> dict[str, float]:
    """Return the ratios to the rivals that were timed with it on the same device, and name the other rivals."""
    metrics: dict[str, float] = {}
    median = results[own]["figures"]["median_us"]
    for name, rival in results.items():
        if name == own:
            continue
        if rival["outcome"] == "pass":
            metrics[f"bench.ratio.{name}"] = rival["figures"]["median_us"] / median
            for figure in _SPREAD:
                metrics[f"bench.{name}.{figure}"] = float(rival["figures"][figure])
        else:
            facts[f"bench.rival.{name}"] = f"{rival['outcome']}: {rival['message']}"
    return metrics


def lost(case: BenchCase, place: Place, toolchain: str, outcome: str, stage: str, message: str) -> Record:
    """Return the record of a case about which the process has said nothing."""
    kind: Any = outcome
    return Record(case.id_at(place, toolchain), kind, stage=stage, message=message)
