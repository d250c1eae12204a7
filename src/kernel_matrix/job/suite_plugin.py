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
import random
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kernel_matrix.job import ctest, fixture
from kernel_matrix.job.drawn import draws_anew
from kernel_matrix.job.exits import Reporting, report_of
from kernel_matrix.job.handed import taken
from kernel_matrix.job.journal import Journal
from kernel_matrix.job.suite_canaries.plugin import Watching
from kernel_matrix.job.suite_end import SuiteEnd, shortened
from kernel_matrix.job.surroundings import environment_facts
from kernel_matrix.job.test_names import IMPORT, NOT_COLLECTED, SUITE, Key, keys_of, op_of

_INTERPRET = "KERNEL_MATRIX_PALLAS_INTERPRET"  # 1: on a CPU, every kernel of Pallas runs in the interpreter for TPUs
STAGE = "launch"  # of a test that runs
_CASE = pytest.StashKey[Mapping[str, Any]]()  # of a test that is to run
_UNSAFE = 0.5  # seconds of results that a machine may lose when it dies
_NO_LIST = "its tests were not listed before the run, so nobody knows which ones it has. Run it again"
_NAMED = 3  # tests in a message
# Options of the suite's own settings by which pytest would take a part of the tests, or divide them among processes.
_OPTIONS: tuple[tuple[str, Any], ...] = (
    *(("numprocesses", 0), ("dist", "no"), ("tx", []), ("maxfail", 0)),
    *(("lf", False), ("failedfirst", False), ("newfirst", False), ("stepwise", False), ("stepwise_skip", False)),
)


class Collecting:
    """Name the tests as cases, and keep the files that do not import or that skip themselves whole."""

    def __init__(self, suite: Path) -> None:
        """``suite`` is the folder of the suite."""
        self.suite = suite
        self.broken: dict[str, tuple[str, str]] = {}  # by operator: the message and the whole text
        self.skipped: dict[str, str] = {}  # the reasons of files that skip themselves, by operator
        self.deselected = 0  # tests that the suite's own settings leave out
        self.settled = False  # whether all hooks have said which tests are left

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Reporting:
        """Keep that a file or folder does not import, with pytest's text. What it draws as it is read is repeated."""
        if not isinstance(collector, pytest.Class):
            _seed(0, getattr(collector, "path", None))
        report = yield from report_of(collector)
        if report.skipped and isinstance(collector, pytest.Module):
            reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr
            self.skipped.setdefault(op_of(collector.path, self.suite), shortened(str(reason)))
        if report.failed:
            detail = str(report.longrepr)
            lines = [line.removeprefix("E").strip() for line in detail.splitlines() if line.strip()]
            message = lines[-1] if lines else "the file does not import"
            path = getattr(collector, "path", self.suite)
            op = SUITE if self.suite.is_relative_to(path) else op_of(path, self.suite)
            self.broken.setdefault(op, (shortened(message), shortened(detail)))
        return report

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Count the tests that are left out."""
        self.deselected += len(items)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self) -> Generator[None, object, object]:
        """Note that no hook has failed: pytest finishes collecting also after one that has."""
        result = yield
        self.settled = True
        _seed(None)
        return result

    def keyed(self, items: list[pytest.Item]) -> dict[Key, pytest.Item]:
        """Return the tests that all plugins have left, by their names as cases."""
        given = [(item.path, item.nodeid.partition("::")[2] or item.name) for item in items]
        return dict(zip(keys_of(given, self.suite), items, strict=True))

    def files(self) -> set[Key]:
        """Return the cases of files without a test: each says that its file does not import, or skips itself."""
        return {(op, IMPORT) for op in (*self.broken, *self.skipped) if op != SUITE}


class Listing(Collecting):
    """Write which tests were collected, or why they could not be, and run none."""

    def __init__(self, suite: Path, file: Path) -> None:
        """``file`` gets the keys of the tests, or a message with a whole text, as JSON."""
        super().__init__(suite)
        self.file = file

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write the file whole, or not at all."""
        if not self.settled:
            return
        keys = [*self.keyed(session.items), *sorted(self.files())]
        session.items.clear()
        fault = self.broken.get(SUITE) or (None if keys else (self._no_test(), ""))
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps({"fault": fault} if fault else {"tests": keys}))
        part.replace(self.file)

    def _no_test(self) -> str:
        if (self.suite / ctest.LIST).is_file():
            return ctest.NO_TEST
        left_out = f": its own settings leave out all {self.deselected}" if self.deselected else ""
        return f"pytest collects no test in the suite{left_out}"


class Running(Collecting):
    """Run the tests that are cases of the job, in the job's order, and journal their starts and ends."""

    def __init__(self, suite: Path, job: Mapping[str, Any], journal: Journal, watching: Watching | None) -> None:
        """``job`` is what the harness says of the job, with its cases and the list of all its tests."""
        super().__init__(suite)
        self.job, self.journal = job, journal
        self.rules: Mapping[str, Any] = job["accuracy"]
        self.watching = watching  # what asks the suite's own comparisons, unless nobody is to
        self.case: Mapping[str, Any] = {}  # that runs
        self.end = SuiteEnd()  # of that case

    def pytest_sessionstart(self) -> None:
        """Journal the process and its environment."""
        self.journal.write("job", job=self.job["job"], pid=os.getpid(), facts=environment_facts())

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Keep the tests that are cases of the job; journal the end of the cases that cannot run."""
        if not self.settled:
            return
        by_key = self.keyed(session.items)
        changed = self._changed({*by_key} | self.files())
        kept: list[pytest.Item] = []
        seen: set[Key] = set()
        for case in self.job["cases"]:
            key = case["op"], case["name"]
            item = by_key.get(key)
            fields = self._fault(key, changed)
            if fields or item is None:
                self._start(case)
                self._write_end(**(fields or {"outcome": "unavailable", "message": NOT_COLLECTED}))
                continue
            kept.append(_twin(item) if key in seen else item)
            seen.add(key)
            kept[-1].stash[_CASE] = case
        session.items[:] = kept

    def _changed(self, here: set[Key]) -> dict[Key, str]:
        """Return the listed tests that are gone, each with a message.

        Where a file has new tests and none is gone, it stands for all of the file: a new test has no case that could be
        red. Where there is a new file, it stands for all tests.
        """
        listed = {(op, name) for op, name in self.job["tests"]}
        changed: dict[Key, str] = {}
        for op in sorted({op for op, _ in listed ^ here} if listed else ()):
            gone = sorted(name for of, name in listed - here if of == op)
            new = sorted(name for of, name in here - listed if of == op)
            of_file = {key for key in listed if key[0] == op}
            red = {(op, name) for name in gone} or of_file or listed
            changed = dict.fromkeys(red, _other_tests(op, gone, new)) | changed
        return changed

    def _fault(self, key: Key, changed: Mapping[Key, str]) -> dict[str, Any] | None:
        """Return how a case ends that must not run; None for any other."""
        op, name = key
        if broken := self.broken.get(SUITE) or self.broken.get(op):
            return {"outcome": "error", "stage": IMPORT, "message": broken[0], "detail": broken[1]}
        if op == SUITE:
            return {"outcome": "error", "stage": IMPORT, "message": _NO_LIST}
        if key in changed:
            reason = f". The file now skips itself: {self.skipped[op]}" if op in self.skipped else ""
            return {"outcome": "error", "stage": IMPORT, "message": f"{changed[key]}{reason}"}
        if op in self.skipped and name == IMPORT:
            return {"outcome": "unavailable", "message": self.skipped[op]}
        return None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Journal the start and the end of the case."""
        self._start(item.stash[_CASE])
        self.end = SuiteEnd()
        began = time.perf_counter()
        try:
            result = yield
        except BaseException as error:  # pytest itself is to end here
            self.end.stopped(error)
            raise
        finally:
            seconds = time.perf_counter() - began
            if self.watching:
                seconds -= self.watching.asking.spent
                self.end.facts |= self.watching.asking.facts()
            fields = self.end.fields(item.stash.get(fixture.COMPARED, None))
            if "detail" in fields and (said := draws_anew(getattr(item, "obj", None))):
                fields["detail"] += f"\n{said}"
            self._write_end(seconds=seconds, **fields)
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


def _other_tests(op: str, gone: Sequence[str], new: Sequence[str]) -> str:
    """Return that a file has other tests than its list says, and what to do."""
    words = [
        f"{len(names)} {which} ({', '.join([*names[:_NAMED], *(['…'] if names[_NAMED:] else [])])})"
        for which, names in (("gone", gone), ("new", new))
        if names
    ]
    return (
        "give parameters fixed ids: no name may depend on the time, on a process or on an earlier run. "
        f"The tests of {op} are not those that were listed before the run: {', '.join(words)}"
    )


def _seed(seed: int | None, file: Path | None = None) -> None:
    """Set what Python and NumPy draw from; of a file that draws from NumPy's, before the file imports NumPy."""
    random.seed(seed)
    text = file.read_bytes() if file and file.is_file() else b""
    with contextlib.suppress(ImportError):
        if "numpy" in sys.modules or (b"numpy" in text and b"random" in text):
            importlib.import_module("numpy").random.seed(seed)


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
    fixture.pytest_addoption(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Watch the functions that compare, before the suite imports them."""
    _seed(0)
    if not early_config.pluginmanager.has_plugin(fixture.WATCHING):
        fixture.pytest_load_initial_conftests(early_config)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Read the job, or prepare the list of tests; and keep pytest in one process, which runs all that it is asked."""
    for name, value in _OPTIONS:
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
    watching = config.pluginmanager.get_plugin(fixture.WATCHING)
    running = Running(suite, job, Journal(journal, key), watching)
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
