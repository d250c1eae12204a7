"""Document -> the measurement of each cell, which the history keeps for later runs."""

from __future__ import annotations

from kernel_matrix.report.document import Cell, Document, Noise
from kernel_matrix.report.ratios import as_float
from kernel_matrix.results.history import Measurement


def measurements(document: Document) -> dict[str, Measurement]:
    """Return the noise ratios and times of every cell that has some, by cell."""
    return {cell.id: _measurement(document, cell) for cell in document.cells if cell.noise or cell.timed}


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
