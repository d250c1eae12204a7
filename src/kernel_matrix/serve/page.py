"""The page of a run that goes on: the results that have come, what the journals say, what is left, and until when."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from kernel_matrix import judging
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.plan import Plan
from kernel_matrix.machines.rows import Seconds, estimate
from kernel_matrix.matrix.dashboard import checks_of
from kernel_matrix.pipeline import Project
from kernel_matrix.probes.toolchain_view import toolchain_view
from kernel_matrix.report.document import FILE, RunNotes
from kernel_matrix.results import history
from kernel_matrix.results.history import History
from kernel_matrix.serve.jobs import LiveJobs, LiveRun

FOLDER = "serve"  # in the build folder: a run writes the site itself, and two may not write one file
_PART_OF_THE_TIME = 4  # making the page takes at most one part in so many


Results = tuple[tuple[str, int, int], ...]  # name, time and size of each file


class LivePage:
    """Make the page of a build folder anew whenever its results or the journals of its jobs have changed."""

    def __init__(self, project: Project, planned: Plan, earlier: History) -> None:
        """``earlier`` are the seconds of cases in earlier runs: they say how long the rest takes."""
        self.project, self.planned, self.earlier = project, planned, earlier
        self.folder = project.build / FOLDER
        self.jobs = LiveJobs(project, planned.jobs, planned.cases)
        self.seconds = estimate(project.matrix, planned.cases, earlier.seconds)
        self.wait_until = 0.0
        self.served = self.folder  # the folder that has the newest page
        self._shown: object = None

    def refresh(self) -> bool:
        """Make the page anew if something has changed; return whether it was made.

        Where the last report has all results and no run goes on, that report is the page.
        """
        if time.monotonic() < self.wait_until:
            return False
        run, results = self.jobs.look(), _signature(self.project.results)
        if not run.goes_on and self._is_reported(results):
            self.served = self.project.site
            return False
        state = results, run.goes_on, tuple((job.id, job.has_begun, job.has_ended, len(job.ends)) for job in run.jobs)
        if state == self._shown:
            return False
        began = time.monotonic()
        self._write(run, has_results=bool(results))
        self._shown, self.served = state, self.folder
        self.wait_until = time.monotonic() + _PART_OF_THE_TIME * (time.monotonic() - began)
        return True

    def _write(self, run: LiveRun, *, has_results: bool) -> None:
        """Write the page of the cases that were asked for or have results; of all cases if there are none."""
        from kernel_matrix.report.cells import Sources  # DuckDB and pyarrow take long to import
        from kernel_matrix.report.make_document import document
        from kernel_matrix.report.site import write_page

        project = self.project
        folders = [project.results] if project.results.is_dir() else []
        words = in_words(run, self.seconds_of(run), os.cpu_count() or 1, time.time())
        only = {case for job in run.jobs for case in job.cases} if run.goes_on or has_results else None
        judging_of_run = judging.judged(
            project, self.planned, folders, earlier=self.earlier, provisional=run.ends, only=only
        )
        with judging_of_run as judged:
            sources = Sources(project.matrix, judged, lambda: project.rules, project.root)
            made = document(
                sources,
                earlier=self.earlier,
                left_out=len(self.planned.cases) - len(judged.planned.cell),
                toolchains=toolchain_view(project, judged.probes()),
                checks=checks_of(project),
                run_notes=RunNotes(running=words),
            )
            write_page(made, sources, self.folder)

    def seconds_of(self, run: LiveRun) -> Mapping[str, float]:
        """Return the expected seconds of each case of the run."""
        seconds: Seconds = self.seconds
        return {
            case: seconds(self.jobs.cases[case]) for job in run.jobs for case in job.cases if case in self.jobs.cases
        }

    def _is_reported(self, results: Results) -> bool:
        """Return whether the last report is newer than all results."""
        try:
            reported = (self.project.site / FILE).stat().st_mtime_ns
        except OSError:
            return False
        return all(changed <= reported for _, changed, _ in results)


def earlier_of(project: Project, folder: Path | None) -> History:
    """Return the history of the folder that was named, else of the last report of this build folder.

    Raises:
        UserError: the folder does not exist.
    """
    if folder is not None:
        return history.read(folder)
    try:
        return history.read(project.site)
    except UserError:  # nothing was reported yet
        return History()


def in_words(run: LiveRun, seconds: Mapping[str, float], workers: int, now: float) -> str:
    """Return how far a run has come, and when it will end, as sentences; nothing if no run goes on.

    The time that is left follows from the pace so far. Before anything has ended, it is what the cases took in earlier
    runs, over the number of jobs at a time.
    """
    if not run.goes_on:
        return ""
    begun = sum(job.has_begun and not job.has_ended for job in run.jobs)
    cases = sum(len(job.cases) for job in run.jobs)
    done = {case for job in run.jobs for case in (job.cases if job.has_ended else job.ends)}
    words = (
        f"{run.ended} of {len(run.jobs)} jobs have ended, and {begun} run. {len(done)} of {cases} cases have ended. "
        "What is missing here has not run yet, or is not judged yet."
    )
    if unknown := sum(not job.cases for job in run.jobs):
        words += f" Of {unknown} jobs the number of cases is not known yet."
    behind = sum(seconds.get(case, 0.0) for case in done)
    ahead = sum(seconds.values()) - behind
    elapsed = now - run.began
    left = elapsed * ahead / behind if behind > 0 else ahead / max(1, min(workers, len(run.jobs)))
    if not seconds or not math.isfinite(left):
        return words
    until = datetime.fromtimestamp(now + left, UTC)
    return f"{words} About {_duration(left)} left, until {until:%H:%M} UTC."


def _duration(seconds: float) -> str:
    minutes = max(1, round(seconds / 60))
    if minutes < 90:
        return f"{minutes} {'minute is' if minutes == 1 else 'minutes are'}"
    return f"{minutes / 60:.1f} hours are"


def _signature(folder: Path) -> Results:
    """Return the name, the time and the size of each file of results."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in (".parquet", ".jsonl", ".xml"))
    signature = []
    for path in paths:
        try:
            status = path.stat()
        except OSError:  # it was replaced at this moment
            continue
        signature.append((str(path), status.st_mtime_ns, status.st_size))
    return tuple(signature)
