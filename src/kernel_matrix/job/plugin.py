"""The pytest plugin that runs a job's cases and keeps its journal.

It needs the standard library, pytest, NumPy and ml_dtypes. This process compares; the kernel runs in another one
(:mod:`kernel_matrix.job.worker`), which :meth:`RunningCase.call` calls. A suite asks for the fixture ``case``, on a
test marked ``@pytest.mark.op("scale", "forward")``: the test then runs once for every case of that operator in the job.
Where several tests are marked for one operator, a case has one end after the last of them. Without a job, the tests
that ask for ``case`` are deselected, and pytest's count says so.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.end import End, combined, end_of, plain
from kernel_matrix.job.exits import Reporting, report_of
from kernel_matrix.job.handed import taken
from kernel_matrix.job.journal import Journal
from kernel_matrix.job.kernel_process import KernelProcess
from kernel_matrix.job.landlock import can_be_kept_away
from kernel_matrix.job.surroundings import environment_facts


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--job`` and ``--journal``."""
    group = parser.getgroup("kernel-matrix")
    group.addoption("--job", type=Path, help="the job's cases, as kernel-matrix run writes them (JSON)")
    group.addoption("--journal", type=Path, help="where to append what happens (JSON lines)")


def pytest_configure(config: pytest.Config) -> None:
    """Read the job, if there is one."""
    config.addinivalue_line("markers", "op(name, direction): the operator whose cases the test runs")
    path: Path | None = config.getoption("--job")
    if path is None:
        config.pluginmanager.register(NoCases())
        return
    job, key = taken(path)
    file = config.getoption("--journal") or path.with_name("journal.jsonl")
    suite = Path(config.args[0]).resolve() if config.args else config.rootpath
    suite = suite if suite.is_dir() else suite.parent
    journal = Journal(file, key)
    kernel_process = KernelProcess(suite, file.with_name("log.txt"), job.get("kernel_without", ()))
    config.pluginmanager.register(Collecting(job, journal, kernel_process))
    config.pluginmanager.register(Running(job, journal, kernel_process))


class Collecting:
    """Parametrize the suite's tests with the job's cases, and journal that the suite does not import."""

    def __init__(self, job: Mapping[str, Any], journal: Journal, kernel_process: KernelProcess) -> None:
        """Give every case the journal, and the process in which its kernel runs."""
        self.job, self.journal, self.kernel_process = job, journal, kernel_process

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give a test that asks for ``case`` the cases of its operator."""
        if "case" not in metafunc.fixturenames:
            return
        marks = {mark.args for mark in metafunc.definition.iter_markers("op")}
        cases = [case for case in self.job["cases"] if (case["op"], case["direction"]) in marks]
        parameters = [RunningCase(self.job, case, self.journal, self.kernel_process) for case in cases]
        metafunc.parametrize("case", parameters, ids=[case["id"] for case in cases])

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the tests that run a case, in the job's order: the tests of one case follow each other."""
        order = {case["id"]: index for index, case in enumerate(self.job["cases"])}
        kept = [item for item in items if case_of(item)]
        config.hook.pytest_deselected(items=[item for item in items if not case_of(item)])
        items[:] = sorted(kept, key=lambda item: order[case_of(item).id])  # type: ignore[union-attr]

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Reporting:
        """Take the end of the process in a test file for an error of the file."""
        return (yield from report_of(collector))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Journal once that the suite does not import: it is an error of every case."""
        if report.failed:
            detail = str(report.longrepr)
            lines = [line for line in detail.splitlines() if line.strip()]
            message = lines[-1] if lines else "the suite does not import"
            self.journal.write("broken", message=plain(message), detail=detail)


class NoCases:
    """Deselect the tests that ask for a case: outside a job there is none."""

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect the tests, so that pytest's closing line counts them."""
        kept = [item for item in items if "case" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def case_of(item: pytest.Item) -> RunningCase | None:
    """Return the case that the test runs; None if it runs none."""
    callspec = getattr(item, "callspec", None)
    case = callspec.params.get("case") if callspec else None
    return case if isinstance(case, RunningCase) else None  # pytest puts a marker of its own for "no parameters"


class Running:
    """Journal the starts and ends of cases, and demand that each case proved something."""

    def __init__(self, job: Mapping[str, Any], journal: Journal, kernel_process: KernelProcess) -> None:
        """``kernel_process`` ends with the session."""
        self.job, self.journal, self.kernel_process = job, journal, kernel_process
        self.ends: list[End] = []  # of the case that runs, one for each of its tests so far
        self.running = ""  # the id of that case

    def pytest_sessionstart(self) -> None:
        """Journal the process and its environment."""
        facts = {**environment_facts(), "keys": "out of reach" if can_be_kept_away() else "within reach"}
        self.journal.write("job", job=self.job["job"], pid=os.getpid(), facts=facts)

    def pytest_sessionfinish(self) -> None:
        """End the kernel's process."""
        self.kernel_process.close()
        gc.freeze()  # else pytest looks through all objects several times as it ends

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Journal the start of a case before its first test, and its end after its last one."""
        case = case_of(item)
        if case is None:
            return (yield)
        if case.id != self.running:
            self.running, self.ends = case.id, []
            self.journal.write("start", case=case.id, action=case.action, attempt=case.attempt)
        try:
            result = yield
        except BaseException as error:  # pytest itself is to end here
            self.ends = self.ends or [end_of(case, error, 0.0)]
            self._write_end(case)
            raise
        following = case_of(nextitem) if nextitem else None
        if following is None or following.id != case.id:
            self._write_end(case)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        """Keep the end of the test itself, and demand that it proved something."""
        case = case_of(pyfuncitem)
        if case is None:
            return (yield)
        began = time.perf_counter()
        error: BaseException | None = None
        try:
            result = yield
            case.require_proof()
            self._require_own_process()
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.ends.append(end_of(case, error, time.perf_counter() - began - case.waited))
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep the end of a test whose fixtures failed, before it or after it."""
        case = case_of(item)
        if case is not None and call.when != "call" and call.excinfo:
            self.ends.append(end_of(case, call.excinfo.value, call.duration))
        return (yield)

    def _require_own_process(self) -> None:
        """Check that the comparison was made where the backend cannot reach it.

        Raises:
            RuntimeError: this process has imported the backend.
        """
        module = self.job.get("backend_module")
        if module and any(name == module or name.startswith(f"{module}.") for name in sys.modules):
            raise RuntimeError(
                f"the process that compares has imported {module}, which could change the comparison: "
                "run the kernel with case.call(), which does it in a process of its own"
            )

    def _write_end(self, case: RunningCase) -> None:
        """Journal the end that follows from the ends of all tests of the case."""
        end = combined(self.ends)
        self.journal.write("end", case=case.id, action=case.action, attempt=case.attempt, **vars(end))
