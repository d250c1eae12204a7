"""The pytest plugin that runs the cases which the search asks for, one after the other, as a job runs its own.

The tests of the suite, the journal, the two processes and the comparison are the same as in a job. What differs is
where the cases come from: a pipe with one case a line, as JSON. The end of each stands in the journal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kernel_matrix.job import plugin as of_job
from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.handed import taken
from kernel_matrix.job.journal import Journal
from kernel_matrix.job.kernel_process import KernelProcess
from kernel_matrix.job.plugin import Collecting, Running
from kernel_matrix.tools.fuzz.inside import values as unusual


class FuzzedCase(RunningCase):
    """A case of the suite, some of whose values are unusual."""

    def __init__(
        self, job: Mapping[str, Any], case: Mapping[str, Any], journal: Journal, process: KernelProcess
    ) -> None:
        """``case`` says by its rules which values are unusual."""
        super().__init__(job, case, journal, process)
        self._rules = unusual.read(case["values"])
        if not case["seeded"]:  # the seed is no axis, so the name of the case does not have it
            self._key = f"{self._key}/{case['seed']}"

    def draw(
        self, tensor: str, shape: tuple[int, ...], *, scale: float = 1.0, mean: float = 0.0
    ) -> npt.NDArray[np.float64]:
        """Return what the suite draws, with the unusual values in their places."""
        values = super().draw(tensor, shape, scale=scale, mean=mean).astype(np.float64)
        self.facts[unusual.DRAWN] = " ".join(dict.fromkeys([*self.facts.get(unusual.DRAWN, "").split(), tensor]))
        for rule in self._rules:
            if rule.tensor == tensor:
                rule.change(values)
        return values


class Asked(Running):
    """Run the cases that come through a pipe, and journal the start and the end of each."""

    def __init__(self, job: Mapping[str, Any], journal: Journal, process: KernelProcess, pipe: Path) -> None:
        """``process`` runs the kernels."""
        super().__init__(job, journal, process)
        self._pipe = pipe

    @pytest.hookimpl
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests of each case that is asked for, until the pipe ends."""
        if session.testsfailed:  # the suite does not import, and the journal says so
            return True
        self.journal.write("ready")
        tests: dict[tuple[str, str], list[pytest.Item]] = {}
        for item in session.items:
            case = item.callspec.params["case"]  # type: ignore[attr-defined]  # only tests of cases are kept
            tests.setdefault((case.op, case.direction), []).append(item)
        for asked in self._asked():
            own = tests[asked["op"], asked["direction"]]
            case = FuzzedCase(self.job, asked, self.journal, self.kernel_process)
            for item in own:
                item.callspec.params["case"] = case  # type: ignore[attr-defined]
            for index, item in enumerate(own):
                following = own[index + 1] if index + 1 < len(own) else None
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return True

    def _asked(self) -> Iterator[dict[str, Any]]:
        with self._pipe.open(encoding="utf-8") as pipe:
            yield from map(json.loads, pipe)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a job, and the pipe."""
    of_job.pytest_addoption(parser)
    parser.getgroup("kernel-matrix").addoption("--asked", type=Path, help="the pipe through which the cases come")


def pytest_configure(config: pytest.Config) -> None:
    """Read the job: its cases are one of each operator and direction, which only say what there is."""
    config.addinivalue_line("markers", "op(name, direction): the operator whose cases the test runs")
    job, key = taken(config.getoption("--job"))
    file: Path = config.getoption("--journal")
    journal = Journal(file, key)
    process = KernelProcess(Path(config.args[0]).resolve(), file.with_name("log.txt"))
    config.pluginmanager.register(Collecting(job, journal, process))
    config.pluginmanager.register(Asked(job, journal, process, config.getoption("--asked")))
