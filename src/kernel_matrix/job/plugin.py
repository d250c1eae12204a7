"""The pytest plugin that runs a job's cases and keeps its journal.

It needs the standard library, pytest, NumPy and ml_dtypes. This process compares; the kernel runs in another one
(:mod:`kernel_matrix.job.worker`), which :meth:`RunningCase.call` calls. A suite asks for the fixture ``case``, on a
test marked ``@pytest.mark.op("scale", "forward")``: the test then runs once for every case of that operator in the job.
Where several tests are marked for one operator, a case has one end after the last of them. Without a job, the tests
that ask for ``case`` are deselected, and pytest's count says so.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kernel_matrix.job.collecting import Collecting, NoCases
from kernel_matrix.job.handed import taken
from kernel_matrix.job.journal import Journal
from kernel_matrix.job.kernel_process import KernelProcess
from kernel_matrix.job.running import Running


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
