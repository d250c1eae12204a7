"""Run every job that this machine can run, and record of every other case why it was not run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock
from typing import Any

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import own_output
from kernel_matrix.base.locking import BusyError, locked
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Job
from kernel_matrix.config.reads import Checkout
from kernel_matrix.run.job_run import JobRun, Preparation
from kernel_matrix.run.quiet import Quiet
from kernel_matrix.run.settings import Progress, Settings
from kernel_matrix.run.supervise import ENDED
from kernel_matrix.store import names
from kernel_matrix.store.record import Record
from kernel_matrix.vendors.machine import Machine

_SMALL = 10  # cases: a job with fewer takes less time than the other work
# Jobs that time something, at a time: one prepares while another does, and each waits until the other is ready too.
_PAIR = 2


def run(
    matrix: Matrix,
    jobs: Sequence[Job],
    machine: Machine,
    settings: Settings,
    progress: Progress,
    on_result: Callable[[Path], object] | None = None,
    beside: Sequence[Callable[[], object]] = (),
) -> list[Path]:
    """Run the jobs and return the result files that could be written, in the order of the jobs.

    ``on_result`` is called with each result file as soon as it is written, from the thread of its job.
    ``beside`` is other work. It is done when a worker has only small jobs left, and before the jobs that time
    something.
    The files of each job are replaced; the other files in the results folder stay as they are.

    Raises:
        UserError: another run is at one of the jobs, in the same folder, an executor that was asked for is not here, or
            what this process prints goes into a file that jobs read.
    """
    _refuse_own_output(Checkout(matrix, settings.root))
    settings.results.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        for job in jobs:
            hold(job, settings, stack)
        prepare = Preparation(matrix, machine, settings, progress, stack)
        runs = [prepare.decided(job) for job in jobs]  # what cannot begin replaces no result
        if not settings.resume:
            for job in jobs:
                names.remove(settings.results, job.id)
        files = _Schedule(prepare, settings.workers, on_result).run(runs, beside)
    return [path for job in jobs if (path := files[job.id]) is not None]


def _refuse_own_output(checkout: Checkout) -> None:
    """Raise an error if what this process prints changes what the jobs read.

    Raises:
        UserError: it does.
    """
    for name, path in own_output().items():
        if path.is_relative_to(checkout.root) and checkout.counts(file := path.relative_to(checkout.root).as_posix()):
            raise UserError(
                f"{file}: the standard {name} goes into this file, which jobs read, so every result would be an error. "
                "Nothing ran, and earlier results stay. Print into build/run.log, or into a new file."
            )


def hold(job: Job, settings: Settings, stack: ExitStack) -> None:
    """Keep other runs away from the job's folder until the stack closes.

    Raises:
        UserError: another run is at it.
    """
    try:
        stack.enter_context(locked(settings.build / "jobs" / f"{job.id}.lock"))
    except BusyError:
        folder = settings.build / "jobs" / job.id
        raise UserError(f"{folder}: another run is at it. Wait for its end, or give --build FOLDER.") from None


@dataclass
class _Schedule:
    """The order of the jobs: some at a time, those on a GPU in turns, and at the end those that time something."""

    prepare: Preparation
    workers: int
    on_result: Callable[[Path], object] | None = None
    gpu: Lock = field(default_factory=Lock)
    quiet: Quiet = field(default_factory=Quiet)
    stop: Event = field(default_factory=Event)
    written: set[str] = field(default_factory=set)  # the jobs that have written their results

    def run(self, runs: Sequence[JobRun], beside: Sequence[Callable[[], object]]) -> dict[str, Path | None]:
        """Run the jobs and the other work, and return each job's file.

        Where a signal ends the run, each job writes what has ended, and that the rest has not.
        """
        try:
            files = self._together([run for run in runs if not run.measures], beside, self.workers)
            return files | self._together([run for run in runs if run.measures], (), min(self.workers, _PAIR))
        except KeyboardInterrupt:
            _also_interrupted(lambda: self._finish_all_early(runs))
            raise

    def _finish_all_early(self, runs: Sequence[JobRun]) -> None:
        for run in runs:
            if run.job.id not in self.written:
                self._finish_early(run)

    def _finish_early(self, run: JobRun) -> None:
        """Write what a job has that has not begun: what an earlier run had finished, if this one goes on with it."""
        settings = run.settings
        if settings.resume and not run.interpreter and names.result_of(settings.results, run.job.id):
            return  # they are of the earlier run
        if not (settings.resume and run.interpreter):
            run.interpreter, run.refusal = None, Record("", "missing", message=ENDED)
        self._finish(run)

    def _together(
        self, runs: Sequence[JobRun], beside: Sequence[Callable[[], object]], workers: int
    ) -> dict[str, Path | None]:
        # The longest first, so that no core waits at the end for a job that began late.
        longest_first = sorted(runs, key=lambda run: -len(run.actions))
        large = [run for run in longest_first if len(run.actions) >= _SMALL]
        futures: dict[str, Future[Path | None]] = {}
        others: list[Future[object]] = []
        with ThreadPoolExecutor(workers) as pool:
            try:
                self._submit(pool, large, futures)
                others += [pool.submit(work) for work in beside]
                self._submit(pool, longest_first[len(large) :], futures)
                files = {name: future.result() for name, future in futures.items()}
                for other in others:
                    other.result()
            except BaseException:
                self.stop.set()
                _also_interrupted(lambda: _wait(pool, [*futures.values(), *others]))
                raise
        return files

    def _submit(
        self, pool: ThreadPoolExecutor, runs: Sequence[JobRun], futures: dict[str, Future[Path | None]]
    ) -> None:
        for run in runs:  # a job begins when its own environment is there
            with self.quiet.work():
                self.prepare.make_environment(run)
            futures[run.job.id] = pool.submit(self._finish, run)

    def _finish(self, run: JobRun) -> Path | None:
        path = run.finish(self.gpu if run.request.gpu else nullcontext(), self.quiet, self.stop)
        self.written.add(run.job.id)
        if path and self.on_result and not self.stop.is_set():
            with self.quiet.work():
                self.on_result(path)
        return path


def _wait(pool: ThreadPoolExecutor, futures: Sequence[Future[Any]]) -> None:
    """Wait for the jobs that are about to end: each writes what has ended.

    The pool cannot tell: Python takes a thread for ended whose ``join`` was interrupted.
    """
    pool.shutdown(wait=False, cancel_futures=True)
    wait([future for future in futures if not future.cancelled()])


def _also_interrupted(work: Callable[[], None]) -> None:
    """Do what must be done before this process ends, also where somebody interrupts it again."""
    while True:
        with suppress(KeyboardInterrupt):
            work()
            return
