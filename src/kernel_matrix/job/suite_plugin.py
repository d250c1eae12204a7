"""The pytest plugin of a job whose cases are the tests of a suite that knows nothing of the harness.

It needs the standard library and pytest only. With ``--kernel-matrix-tests FILE`` it writes which tests were collected.
With ``--kernel-matrix-job FILE`` it runs the tests that are cases of the job, and journals the start and end of each. A
test that asks for the fixture ``matrix`` (:mod:`kernel_matrix.job.fixture`) has the figures of its comparisons too.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import json
import os
import sys
import time
from collections import deque
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kernel_matrix.job import ctest, fixture
from kernel_matrix.job.handed import taken
from kernel_matrix.job.journal import Journal
from kernel_matrix.job.suite_end import SuiteEnd, shortened
from kernel_matrix.job.surroundings import environment_facts
from kernel_matrix.job.test_names import COLLECTED, IMPORT, SUITE, Key, keys_of, op_of

_INTERPRET = "KERNEL_MATRIX_PALLAS_INTERPRET"  # 1: on a CPU, every kernel of Pallas runs in the interpreter for TPUs
STAGE = "launch"  # of a test that runs
_UNSAFE = 0.5  # seconds of results that a machine may lose when it dies
_ABSENT = "the suite has no such test here: it was not collected in this environment"


class Collecting:
    """Name the tests as cases, and keep the files that do not import or that skip themselves whole."""

    def __init__(self, suite: Path) -> None:
        """``suite`` is the folder of the suite."""
        self.suite = suite
        self.broken: dict[str, tuple[str, str]] = {}  # by operator: the message and the whole text
        self.skipped: dict[str, str] = {}  # the reasons of files that skip themselves, by operator
        self.keyed: list[tuple[Key, pytest.Item]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Keep that a file does not import, with pytest's text."""
        report = yield
        if report.skipped and isinstance(collector, pytest.Module):
            reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr
            self.skipped.setdefault(op_of(collector.path, self.suite), shortened(str(reason)))
        if report.failed:
            detail = str(report.longrepr)
            lines = [line.removeprefix("E").strip() for line in detail.splitlines() if line.strip()]
            message = lines[-1] if lines else "the file does not import"
            path = getattr(collector, "path", self.suite)
            op = SUITE if path == self.suite or path.is_dir() else op_of(path, self.suite)
            self.broken.setdefault(op, (shortened(message), shortened(detail)))
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Name the tests that the suite's own plugins have left."""
        given = [(item.path, item.nodeid.partition("::")[2] or item.name) for item in items]
        self.keyed = list(zip(keys_of(given, self.suite), items, strict=True))


class Listing(Collecting):
    """Write which tests were collected, and run none."""

    def __init__(self, suite: Path, file: Path) -> None:
        """``file`` gets the keys of the tests as JSON."""
        super().__init__(suite)
        self.file = file

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write the file. A file of the suite that does not import has a case that says so."""
        files = {**self.broken, **self.skipped}
        keys = [*(key for key, _ in self.keyed), *((op, IMPORT) for op in files if op != SUITE)]
        self.file.write_text(json.dumps(keys))
        session.items.clear()


class Running(Collecting):
    """Run the tests that are cases of the job, in the job's order, and journal their starts and ends."""

    def __init__(self, suite: Path, job: Mapping[str, Any], journal: Journal) -> None:
        """``job`` is what the harness says of the job, with its cases."""
        super().__init__(suite)
        self.job, self.journal = job, journal
        self.rules: Mapping[str, Any] = job["accuracy"]
        self.queue: deque[Mapping[str, Any]] = deque()  # the cases of the items, in their order
        self.case: Mapping[str, Any] = {}  # that runs
        self.end = SuiteEnd()  # of that case
        self.collected = 0

    def pytest_sessionstart(self) -> None:
        """Journal the process and its environment."""
        self.journal.write("job", job=self.job["job"], pid=os.getpid(), facts=environment_facts())

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests that are cases of the job; journal the end of the cases that have no test."""
        super().pytest_collection_modifyitems(items)
        by_key = dict(self.keyed)
        self.collected = len(items)
        kept: list[pytest.Item] = []
        seen: set[Key] = set()
        for case in self.job["cases"]:
            key = case["op"], case["name"]
            item = by_key.get(key)
            if item is None:
                self._end_without_test(case)
                continue
            kept.append(_twin(item) if key in seen else item)
            seen.add(key)
            self.queue.append(case)
        items[:] = kept

    def _end_without_test(self, case: Mapping[str, Any]) -> None:
        """Journal the case that says how collecting went, or that a test is not there."""
        self._start(case)
        op, name = case["op"], case["name"]
        if op == SUITE and name == COLLECTED:
            if SUITE in self.broken:
                message, detail = self.broken[SUITE]
                self._write_end(outcome="error", stage=IMPORT, message=message, detail=detail)
            elif not self.collected and not self.broken:
                self._write_end(outcome="error", stage=IMPORT, message="pytest collects no test in the suite")
            else:
                self._write_end(outcome="pass", metrics={"tests": self.collected})
        elif op in self.broken:
            message, detail = self.broken[op]
            self._write_end(outcome="error", stage=IMPORT, message=message, detail=detail)
        elif op in self.skipped and name == IMPORT:
            self._write_end(outcome="unavailable", message=self.skipped[op])
        else:
            self._write_end(outcome="unavailable", message=_ABSENT)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Journal the start and the end of the case."""
        self._start(self.queue.popleft())
        self.end = SuiteEnd()
        began = time.perf_counter()
        try:
            result = yield
        except BaseException as error:  # pytest itself is to end here
            self.end.stopped(error)
            raise
        finally:
            seconds = time.perf_counter() - began
            self._write_end(seconds=seconds, **self.end.fields(item.stash.get(fixture.COMPARED, None)))
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep how a part of the test has ended: its setup, its call, its teardown, a subtest."""
        report = yield
        self.end.take(report, call.excinfo.value if call.excinfo else None)
        return report

    def _start(self, case: Mapping[str, Any]) -> None:
        self.case = case
        fields = {name: case[name] for name in ("action", "attempt")}
        self.journal.write("start", every=_UNSAFE, case=case["id"], stage=STAGE, **fields)

    def _write_end(self, **fields: Any) -> None:
        case = self.case
        names = {"case": case["id"], "action": case["action"], "attempt": case["attempt"]}
        self.journal.write("end", every=_UNSAFE, **names, **fields)


def _twin(item: pytest.Item) -> pytest.Item:
    """Return a copy of a test that runs for another target as well: pytest would not set up the same one twice."""
    twin = copy.copy(item)
    twin.stash = pytest.Stash()
    if callable(getattr(twin, "_initrequest", None)):
        twin._initrequest()  # type: ignore[attr-defined]  # pytest makes the fixtures of a test anew so
    return twin


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options by which the harness says what to do."""
    group = parser.getgroup("kernel-matrix")
    group.addoption("--kernel-matrix-suite", type=Path, help="the folder of the suite")
    group.addoption("--kernel-matrix-job", type=Path, help="the job's cases, as kernel-matrix run writes them (JSON)")
    group.addoption("--kernel-matrix-journal", type=Path, help="where to append what happens (JSON lines)")
    group.addoption("--kernel-matrix-tests", type=Path, help="where to write which tests there are, and run none")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Read the job, or prepare the list of tests; and keep pytest in one process, which runs all that it is asked."""
    for name, value in (("numprocesses", 0), ("dist", "no"), ("tx", []), ("maxfail", 0)):
        if hasattr(config.option, name):
            setattr(config.option, name, value)
    if not config.pluginmanager.is_registered(fixture):
        config.pluginmanager.register(fixture, fixture.__name__)
    suite: Path = config.getoption("--kernel-matrix-suite").resolve()
    if (suite / ctest.LIST).is_file():
        config.pluginmanager.register(ctest.Plugin(suite))
    if file := config.getoption("--kernel-matrix-tests"):
        config.pluginmanager.register(Listing(suite, file), fixture.RUNNING)
        return
    path: Path = config.getoption("--kernel-matrix-job")
    journal: Path = config.getoption("--kernel-matrix-journal")
    job, key = taken(path)
    running = Running(suite, job, Journal(journal, key))
    config.pluginmanager.register(running, fixture.RUNNING)


def pytest_collection() -> None:
    """Let Pallas interpret, if that is asked. The suite's own conftest.py has configured JAX by now."""
    if os.environ.get(_INTERPRET, "0") not in ("", "0"):
        tpu = importlib.import_module("jax.experimental.pallas.tpu")
        tpu.set_tpu_interpret_mode(tpu.InterpretParams())


def pytest_unconfigure() -> None:
    """Write out what was printed: a process that ends by force would lose it."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
