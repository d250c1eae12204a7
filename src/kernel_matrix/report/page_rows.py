"""Results as columns -> the files of the page's cells. DuckDB gives the cases of many cells at once, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kernel_matrix.report import page_sql
from kernel_matrix.report.cells import Sources
from kernel_matrix.report.document import Document
from kernel_matrix.report.page_arrow import Arrow, CasesOfArrow
from kernel_matrix.report.page_cells import CellFiles
from kernel_matrix.report.page_columns import Cases

AT_ONCE = 30_000  # cases that are asked for at one time


@dataclass
class PageRows:
    """Write the cases of cells."""

    sources: Sources

    def write(self, document: Document, folder: Path, order: Sequence[int]) -> CellFiles:
        """Write the files of the cells in this order."""
        files = CellFiles(folder, document)
        for place, part in zip(order, self.cells(order), strict=True):
            cell = document.cells[place]
            files.add(cell, *part, self.sources.judged.in_journal.get(cell.id))
        files.finish()
        return files

    def cells(self, order: Sequence[int]) -> Iterator[tuple[Cases, int]]:
        """Yield, for each cell in this order, the columns that have its cases, and the place of the first of them."""
        judged = self.sources.judged
        page_sql.order_cases(judged.connection, order)
        sizes = [self.sources.cells[cell].planned for cell in order]
        parts = self._parts(sizes)
        with ThreadPoolExecutor(1) as pool:  # one part is asked for while the one before it is written
            coming = [pool.submit(self._asked, *part) for part in parts[:1]]
            for number, (first, last) in enumerate(parts):
                arrow = coming.pop().result()
                if number + 1 < len(parts):
                    coming.append(pool.submit(self._asked, *parts[number + 1]))
                cases, place = self._of_arrow.cases(arrow), 0
                while place <= last - first:
                    yield cases, place
                    place += sizes.pop(0)

    @cached_property
    def _of_arrow(self) -> CasesOfArrow:
        return CasesOfArrow(self.sources)

    def _asked(self, first: int, last: int) -> Arrow:
        """Return the cases from a place to another."""
        connection = self.sources.judged.connection
        cases = connection.sql(page_sql.CASES, params=[first, last]).to_arrow_table()
        outputs = connection.sql(page_sql.OUTPUTS, params=[first, last]).to_arrow_table()
        return Arrow(cases, outputs.sort_by(page_sql.IN_ORDER))

    @staticmethod
    def _parts(sizes: Sequence[int]) -> list[tuple[int, int]]:
        """Return the first and the last place of cases that are asked for together, so that no cell is cut."""
        parts: list[tuple[int, int]] = []
        first = place = 0
        for size in sizes:
            if place - first >= AT_ONCE:
                parts.append((first, place - 1))
                first = place
            place += size
        return [*parts, (first, place - 1)] if place > first else parts
