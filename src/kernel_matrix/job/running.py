"""Run the cases of a job, and journal the start and the end of each."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.case_end import end_of
from kernel_matrix.job.collecting import case_of
from kernel_matrix.job.end import End, combined
from kernel_matrix.job.journal import Journal
from kernel_matrix.job.kernel_process import KernelProcess
from kernel_matrix.job.landlock import can_be_kept_away
from kernel_matrix.job.surroundings import environment_facts


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
