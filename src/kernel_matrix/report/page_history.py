"""Earlier runs -> the page's history: transitions of cells, and trends of their figures."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kernel_matrix.report.difference import Difference
from kernel_matrix.report.document import Document
from kernel_matrix.report.page_data import HistoryData, Transition, Trend
from kernel_matrix.results.history import Measurement, Measurements

_MOST_OF_A_REASON = 300  # characters


def history_data(
    document: Document, past: Measurements, difference: Difference | None, tables: Path | None = None
) -> HistoryData:
    """Return what the page knows of earlier runs.

    ``past`` are the measurements of all runs with the present one. ``difference`` is that to an earlier report. Where
    there are ``tables`` of earlier runs, their transitions come after those of the difference.
    """
    return HistoryData(
        transitions=[*_transitions(document, difference), *_of_tables(tables)],
        trends=_trends(past),
    )


def _of_tables(folder: Path | None) -> list[Transition]:
    """Return the transitions of the runs in a folder of tables, the newest first."""
    if folder is None:
        return []
    from kernel_matrix.results.past import transitions  # DuckDB and pyarrow take long to import

    return [
        Transition.model_validate({**transition, "reason": transition["reason"][:_MOST_OF_A_REASON]})
        for transition in transitions(folder)
    ]


def _transitions(document: Document, difference: Difference | None) -> list[Transition]:
    if difference is None:
        return []
    changes = (*difference.newly_red, *difference.no_longer_red, *difference.other)
    commits = ", ".join(document.run.commits)
    return [
        Transition(
            cell=change.cell,
            before=change.before,
            after=change.after,
            since=document.run.created,
            commit=commits,
            commit_before=difference.base,
            versions={},
            reason=change.reason[:_MOST_OF_A_REASON],
        )
        for change in changes
    ]


def _trends(past: Measurements) -> list[Trend]:
    """Return a trend for each cell and device with more than one run: one point shows no direction."""
    trends = []
    for cell, series in past.items():
        by_device: dict[str, list[Measurement]] = {}
        for measurement in series:
            by_device.setdefault(measurement.device, []).append(measurement)
        trends += [_trend(cell, device, runs) for device, runs in by_device.items() if len(runs) > 1]
    return trends


def _trend(cell: str, device: str, runs: list[Measurement]) -> Trend:
    return Trend(
        cell=cell,
        device=device,
        started=[run.started for run in runs],
        commits=[run.commit for run in runs],
        noise=_series(run.noise for run in runs),
        speed=_series(run.speed for run in runs),
        seconds=_series(run.seconds for run in runs),
    )


def _series(figures: Iterable[dict[str, float]]) -> dict[str, list[float | None]]:
    """Return the values of each figure over the runs; None where a run has no such figure."""
    runs = list(figures)
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: [run.get(name) for run in runs] for name in names}
