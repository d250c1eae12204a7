"""The live table of jobs in a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from rich.live import Live
from rich.table import Table

from kernel_matrix.base.console import ColouredConsole

Rows = Callable[[], Iterable[tuple[str, str, Counter[str], str]]]
_COLOURS = {"pass": "green", "held": "green", "fail": "red", "error": "red", "known": "yellow", "missing": "magenta"}


class LiveTable:
    """Show one line for each job, over and over; other lines stand above it."""

    def __init__(self, rows: Rows) -> None:
        """``rows`` has the name of each job, how many of its cases have ended and how, and what it does."""
        self._rows, self._console = rows, ColouredConsole()
        self._live = Live(
            console=self._console,
            get_renderable=self._table,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,  # what is printed is watched as it is
            redirect_stderr=False,
        )
        self.start, self.stop = self._live.start, self._end

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, markup=False)

    def _end(self) -> None:
        self._live.stop()
        self._console.print(self._table())

    def _table(self) -> Table:
        table = Table("job", "cases", "ended as", "now", box=None, pad_edge=False)
        for job, ended, counts, text in self._rows():
            coloured = (
                f"[{_COLOURS.get(outcome.partition(' ')[0], 'dim')}]{count} {outcome}[/]"
                for outcome, count in counts.items()
            )
            table.add_row(job, ended, " ".join(coloured), text)
        return table
