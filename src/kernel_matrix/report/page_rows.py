"""Results as columns -> the cases of the page as JSON. DuckDB writes the numbers, and Python places the texts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from kernel_matrix.diagnosis import Diagnosis
from kernel_matrix.report import page_sql
from kernel_matrix.report.document import Document
from kernel_matrix.report.figures import number
from kernel_matrix.report.from_columns import DIAGNOSED, Sources
from kernel_matrix.report.page_cells import CellFiles
from kernel_matrix.report.page_kept import kept_files
from kernel_matrix.report.page_script import encoded
from kernel_matrix.results.columns.sql import Connection, rows
from kernel_matrix.results.compare import State
from kernel_matrix.results.record import Record

AT_ONCE = 20_000  # cases that are asked for at one time
_SAFE = re.compile(r"[\w@%+=:,./-]+", re.ASCII)  # the shell reads it as it stands


class Row(NamedTuple):
    """A case as :mod:`kernel_matrix.report.page_sql` gives it. ``others`` are figures without a column, by output."""

    cell: int
    named: int
    record: int | None
    state: State
    evidence: str
    reason: str
    stale: str
    job: int | None
    outcome: str
    action: str
    stage: str
    message: str
    detail: str
    seconds: float
    attempts: list[str]
    facts: str
    image: str | None
    lock: str | None
    artifact: str | None
    times: list[float] | None
    outputs: str | None
    others: list[dict[str, Any]] | None


@dataclass
class Shared:
    """The shared parts of one file: a function that places a text, and the numbers of diagnoses, jobs and figures."""

    place: Callable[[str], int]
    diagnoses: dict[Diagnosis, int]
    jobs: dict[int, int]
    figures: dict[str, int]


@dataclass
class PageRows:
    """Write the cases of cells as JSON."""

    sources: Sources
    _repeats: dict[tuple[Any, ...], str] = field(default_factory=dict)
    _quick: dict[int, bool] = field(default_factory=dict)
    _names: list[str] = field(default_factory=list)
    _places: dict[int, int | None] = field(default_factory=dict)

    def write(self, document: Document, folder: Path, order: Sequence[int]) -> CellFiles:
        """Write the files of the cells in this order, apart from those of an earlier report that need no change."""
        kept = kept_files(self.sources, document, folder, order)
        files = CellFiles(folder, document, kept.free_numbers if kept else None)
        stay = kept.stay if kept else {}
        changed = self.cells([place for place in order if place not in stay])
        for place in order:
            cell = document.cells[place]
            if kept and place in stay:
                files.keep(cell, kept.states[place], stay[place])
            else:
                files.add_rows(cell, next(changed)[1], self)
        files.finish()
        if kept:
            kept.enter(files.cells)
        return files

    def cells(self, order: Sequence[int]) -> Iterator[tuple[int, list[Row]]]:
        """Yield the number of each cell in this order, with its cases in the order of the plan."""
        judged = self.sources.judged
        page_sql.order_cases(judged.connection, order)
        parts = _parts([(cell, judged.cells[cell].planned) for cell in order])
        with ThreadPoolExecutor(1) as pool:  # one part is asked for while the one before it is written
            coming = [pool.submit(_rows, judged.connection, *part) for part in parts[:1]]
            for place in range(len(parts)):
                part = coming.pop().result()
                if place + 1 < len(parts):
                    coming.append(pool.submit(_rows, judged.connection, *parts[place + 1]))
                for cell, of_cell in groupby(part, key=lambda row: int(row[0])):
                    yield cell, [Row(*row) for row in of_cell]

    def name(self, row: Row) -> str:
        """Return the name of a case."""
        return self.sources.judged.planned.names[row.named].name

    def written(self, row: Row, shared: Shared) -> str:
        """Return a case without what has its default value."""
        place = shared.place
        parts = [f'{{"name":{self._name(row.named)},"state":"{row.state}","evidence":"{row.evidence}"']
        if row.reason:
            parts.append(f'"reason":{place(row.reason)}')
        if row.stale:
            parts.append(f'"stale":{place(row.stale)}')
        if row.record is not None:
            parts += self._of_record(row, shared)
        parts.append(f'"repeat":{place(self._repeat(row))}}}')
        return ",".join(parts)

    def _of_record(self, row: Row, shared: Shared) -> Iterator[str]:
        if row.message and row.message != row.reason:
            yield f'"message":{shared.place(row.message)}'
        if row.detail:
            yield f'"detail":{shared.place(row.detail)}'
        if row.stage:
            yield f'"stage":{_text(row.stage)}'
        if row.action:
            yield f'"action":"{row.action}"' if row.action.isalpha() else f'"action":{_text(row.action)}'
        if row.seconds:
            yield f'"seconds":{row.seconds!r}'
        if row.facts != "{}":
            yield f'"facts":{row.facts}'
        if row.artifact:
            yield f'"artifact":{{{row.artifact}}}'
        if row.times:
            yield f'"times":{_times(row.times)}'
        if row.attempts:
            yield f'"attempts":{_text(row.attempts)}'
        if row.outputs:
            yield f'"outputs":{_with_others(row.outputs, row.others, shared) if row.others else f"{{{row.outputs}}}"}'
        if row.state in DIAGNOSED:
            assert row.job is not None
            diagnosis = self.sources.diagnoses.of(row.job, row.outcome, row.stage, row.message, row.detail, row.reason)
            yield f'"diagnosis":{shared.diagnoses.setdefault(diagnosis, len(shared.diagnoses))}'
        if (job := self._job(row.job)) is not None:
            yield f'"job":{shared.jobs.setdefault(job, len(shared.jobs))}'

    def _name(self, named: int) -> str:
        if not self._names:
            self._names += [_text(name.name) for name in self.sources.judged.planned.names]
        return self._names[named]

    def _job(self, number: int | None) -> int | None:
        """Return the place of a job in the document."""
        if number is None:
            return None
        if number not in self._places:
            self._places[number] = self.sources.jobs.place(self.sources.judged.jobs[number])
        return self._places[number]

    def _repeat(self, row: Row) -> str:
        """Return the command that repeats a case, with ``{case}`` for its id. Equal commands are made once."""
        planned = self.sources.judged.planned
        cell, name = planned.cells[row.cell], planned.names[row.named].name
        identity = f"{cell.id}/{name}"
        if row.named not in self._quick:
            self._quick[row.named] = self.sources.commands.is_quick(f"{cell.op}.{cell.direction}", name)
        is_safe = _SAFE.fullmatch(identity) is not None
        key = (cell.platform, row.job, row.image, row.lock, self._quick[row.named], is_safe or identity)
        if key not in self._repeats:
            record = None
            if row.job is not None:
                known = {"image": row.image or "", "lock.sha256": row.lock or ""}
                record = Record(identity, "pass", facts=known, job=self.sources.judged.jobs[row.job])
            command = self.sources.commands.command(identity, record)
            self._repeats[key] = command.replace(identity, "{case}")
        return self._repeats[key]


def _parts(cells: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the first and the last place of cases that are asked for together, so that no cell is cut."""
    parts: list[tuple[int, int]] = []
    first = place = 0
    for _, cases in cells:
        if place - first >= AT_ONCE:
            parts.append((first, place - 1))
            first = place
        place += cases
    return [*parts, (first, place - 1)] if place > first else parts


def _rows(connection: Connection, first: int, last: int) -> list[tuple[Any, ...]]:
    return rows(connection, page_sql.CASES, [first, last])


def _with_others(outputs: str, others: Sequence[Mapping[str, Any]], shared: Shared) -> str:
    """Return the outputs of a case with figures that have no column. Few results have such figures."""
    values = json.loads(f"{{{outputs}}}")
    for of_output in others:
        row = values[of_output["output"]]
        for name, value in of_output["others"].items():
            place = shared.figures.setdefault(name, len(shared.figures))
            row += [None] * (place + 1 - len(row))
            row[place] = number(value)
    return _text(values)


def _text(value: Any) -> str:
    return encoded(value).decode()


def _times(values: Sequence[float]) -> str:
    run, baseline, ratio, rounds = values
    times: Mapping[str, float] = {
        "run": float(f"{run:.5g}"),
        "baseline": float(f"{baseline:.5g}"),
        "ratio": float(f"{ratio:.5g}"),
        "rounds": int(rounds),
    }
    return _text(times)
