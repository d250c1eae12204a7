"""Keep the results of a job that a run of a part of the job does not make again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from kernel_matrix.config.canary_cases import canary_cases, group_of
from kernel_matrix.config.model import ASSERTED
from kernel_matrix.config.plan import Case
from kernel_matrix.results.states import CAUGHT, INJECTED, detection
from kernel_matrix.store import journal, names, write
from kernel_matrix.store.record import Record
from kernel_matrix.store.validation import Bounds, RefusedError

FOLDER = "rest"  # in the folder of results, so that every report of that folder has what is in it


def keep(results: Path, job: str, planned: Mapping[str, Case], again: Collection[str]) -> int:
    """Keep the results that the job has of its other planned cases in a folder of their own, and return their number.

    ``again`` are the cases that are about to run. Each result keeps the facts of the run that made it, so a report can
    say that it is stale. Call this before the run: what is kept is then safe, however the run ends.
    """
    folder = results / FOLDER
    newer = _read(results, job)
    ran = {record.case for record in newer}
    rest = [
        *_rest_of(newer, planned, set(again)),
        *_rest_of(_read(folder, job), planned, {*again, *ran}),
    ]
    names.remove(folder, job, but=[path.stem for path in write.write_all(folder, rest)])
    return len({record.case for record in rest}.difference(again))


def _rest_of(records: Sequence[Record], planned: Mapping[str, Case], newer: Collection[str]) -> list[Record]:
    """Return what stays of the runs that records came from. ``newer`` are the cases that have a newer result.

    The canaries of a group of cases are carried by one case, and without them, or without its failure, no result of the
    group is believed. So that record stays too. Its case then has two results: one that is not stale counts before one
    that is, and of equals the worse one. The facts of a job have the counts of the canaries that stay.
    """
    runs: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.case in planned:
            runs[record.run].append(record)
    rest: list[Record] = []
    for run in runs.values():
        kept = list(_rest_of_run(run, planned, newer))
        facts = {name: value for name, value in run[0].job.items() if name not in (INJECTED, CAUGHT)}
        facts |= detection(kept).facts
        rest += [replace(record, job=facts) for record in kept]
    return rest


def _rest_of_run(run: Sequence[Record], planned: Mapping[str, Case], newer: Collection[str]) -> Iterator[Record]:
    groups: dict[object, list[Record]] = defaultdict(list)
    for record in run:
        groups[group_of(planned[record.case])].append(record)
    tried = [planned[record.case] for record in run if record.action]
    carriers = canary_cases(case for case in tried if case.cell.direction != ASSERTED)
    for group in groups.values():
        rest = [record for record in group if record.case not in newer]
        yield from rest
        if rest:
            yield from (record for record in group if record.case in newer and record.case in carriers)


def _read(folder: Path, job: str) -> tuple[Record, ...]:
    """Return the records of a job in a folder; none of a file that is not whole."""
    files = names.results_of(folder, job)
    if not all(map(names.is_journal, files)):
        from kernel_matrix.store.load import collect  # DuckDB and pyarrow take long to import

        return collect(files).records
    records: list[Record] = []  # a machine without pyarrow has journals only
    for path in files:
        with suppress(RefusedError):
            records += journal.read(path, Bounds())
    return tuple(records)
