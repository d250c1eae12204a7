"""Document -> the measurement of each cell, which the history keeps for later runs."""

from __future__ import annotations

from collections.abc import Iterable

from kernel_matrix.report.document import BenchResult, Cell, Document, Noise
from kernel_matrix.report.ratios import as_float
from kernel_matrix.results.history import Measurement
from kernel_matrix.store.record import BENCH


def measurements(document: Document) -> dict[str, Measurement]:
    """Return the noise ratios and times of every cell that has some, by cell."""
    of_cells = {cell.id: _measurement(document, cell) for cell in document.cells if cell.noise or cell.timed}
    return of_cells | _of_bench(document.bench)


def _of_bench(results: Iterable[BenchResult]) -> dict[str, Measurement]:
    """Return the times of the benchmark, of the device that was used last, by ``bench:`` and the cell's id."""
    by_cell: dict[str, list[BenchResult]] = {}
    for one in results:
        if one.time and not one.quick:
            cell = f"{BENCH}{one.platform}/{one.target}/{one.toolchain}/{one.op}.{one.direction}"
            by_cell.setdefault(cell, []).append(one)
    made = {}
    for cell, given in by_cell.items():
        last = max(given, key=lambda one: one.started)
        same = [one for one in given if one.device == last.device]
        made[cell] = Measurement(
            started=last.started,
            commit=last.commit[:100],
            device=last.device[:400],
            speed={one.case: ratio for one in same if (ratio := _baseline_ratio(one)) is not None},
            seconds={one.case: one.time.median_us / 1e6 for one in same if one.time},
        )
    return made


def _baseline_ratio(one: BenchResult) -> float | None:
    """Return how many times as fast as the baseline it is; None where that was not timed."""
    ratio = one.figures.get("baseline_ratio")
    return float(ratio) if isinstance(ratio, (int, float)) else None


def _measurement(document: Document, cell: Cell) -> Measurement:
    jobs = [document.jobs[place] for place in cell.measured]
    return Measurement(
        started=max((job.get("started", "") for job in jobs), default="")[:40],
        commit=", ".join(sorted({job.get("commit", "") for job in jobs}))[:100],
        device="; ".join(sorted({job.get("device", "") for job in jobs}))[:400],
        noise=_ratios(cell),
        speed={timed.case: timed.ratio for timed in cell.timed},
        seconds={timed.case: timed.run for timed in cell.timed},
    )


def _ratios(cell: Cell) -> dict[str, float]:
    """Return the finite noise ratios: JSON has no other numbers, and a result that is Inf fails anyhow."""
    ratios = {
        f"{dtype}/{output}": _ratio(noise) for dtype, outputs in cell.noise.items() for output, noise in outputs.items()
    }
    return {name: ratio for name, ratio in ratios.items() if ratio < float("inf")}


def _ratio(noise: Noise) -> float:
    return float("inf") if noise.ratio is None else as_float(noise.ratio)
