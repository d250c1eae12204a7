"""The case that a suite's test gets while it runs."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from kernel_matrix.job import inputs, quiet, sample
from kernel_matrix.job.accuracy import Golden
from kernel_matrix.job.ahead.targets import hold
from kernel_matrix.job.artifacts import Artifacts
from kernel_matrix.job.budget import rules_of
from kernel_matrix.job.canaries import Subject, try_canaries
from kernel_matrix.job.comparison import Comparison, compare_outputs
from kernel_matrix.job.inputs import Array
from kernel_matrix.job.journal import FIRST_STAGE, Journal
from kernel_matrix.job.kernel_process import KernelProcess, KernelProcessError


class OutOfBudgetError(AssertionError):
    """A result is further from the golden than its budget allows."""


class BlindComparisonError(Exception):
    """The comparison does not find a fault that was put into a result."""


class RunningCase:
    """One case for one test of the suite: the test reads from it what to do, and records the results in it.

    ``action`` is ``run`` (on real hardware of the target), ``emulate`` or ``compile``. ``device`` is ``cpu``, or
    ``cuda`` for a GPU of any vendor. ``interpreted`` says that an interpreter stands in for the target, and nothing is
    made for the target. ``kernel`` is what matrix.yaml names as the toolchain's kernel. A test that skips says that its
    device is not here: the case is ``unavailable``.
    """

    def __init__(
        self,
        job: Mapping[str, Any],
        case: Mapping[str, Any],
        journal: Journal,
        kernel_process: KernelProcess | None = None,
    ) -> None:
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
        self.kernel: str = job.get("kernel", "")
        self.accuracy: Mapping[str, Any] = job["accuracy"]
        self.device: str = job["device"]
        self.timed: bool = case.get("timed", False) and self.action == "run"
        self.interpreted: bool = job.get("interpreted", False)
        self.attempt: int = case.get("attempt", 1)
        self.canary: bool = case.get("canary", False) and self.action != "compile"
        self.metrics: dict[str, float] = {}
        self.facts: dict[str, str] = {}
        self.samples: dict[str, dict[str, Any]] = {}
        self.last_stage = FIRST_STAGE
        self.waited = 0.0  # seconds for the quiet to measure in, and for going on after it
        self._is_quiet = False
        self.sums: frozenset[str] = frozenset(case.get("sums", ()))
        self._artifacts = Artifacts()
        self._key = f"{self.op}.{self.direction}/{self.name}"
        self._kernel_process = kernel_process

    def draw(self, tensor: str, shape: tuple[int, ...], *, scale: float = 1.0, mean: float = 0.0) -> Array:
        """Return values of variance ``scale``² around ``mean``, float64; the case's name alone determines them."""
        values = inputs.normal(f"{self._key}/{tensor}", shape)
        return values * scale + mean

    def nudge(self, tensor: str, values: npt.NDArray[np.float64], draw: int = 0) -> npt.NDArray[np.float64]:
        """Return ``values`` off by one rounding error of fp32 each; the case's name determines up or down."""
        return inputs.nudge(f"{self._key}/{tensor}/{draw}", values)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Say that the case is in this stage (``import``, ``lower``, ``compile``, ``launch``) until the block ends."""
        self._enter_stage(name)
        try:
            yield
        except Exception as error:
            if not hasattr(error, "stage"):
                error.stage = name  # type: ignore[attr-defined]
            raise

    def _enter_stage(self, name: str) -> None:
        if name != self.last_stage:
            self.last_stage = name
            self._journal.write("stage", case=self.id, stage=name)

    def call(
        self, function: str, arrays: Mapping[str, Array] | None = None, **options: Any
    ) -> tuple[Any, dict[str, Array]]:
        """Call ``module:function`` in the kernel's process, and return its value and its arrays.

        The module lies in the suite's folder. The function gets the arrays by name and the options, and returns a pair:
        what JSON can hold, and arrays by name. What it does to its arrays does not reach the caller's.

        Raises:
            KernelProcessError: the call failed, or the process died.
            DeviceMissingError: it raised :class:`kernel_matrix.job.worker.Unavailable`.
        """
        process = self._kernel_process
        if process is None:
            raise RuntimeError("this case has no process for the kernel: it is not part of a job")
        results = process.call(function, arrays or {}, options, self._enter_stage)
        if orphans := process.orphans():
            raise KernelProcessError(
                f"the kernel left {len(orphans)} processes behind: {', '.join(orphans)}", "", "launch"
            )
        self.facts["process"] = "own"
        return results

    def end_kernel_process(self) -> None:
        """End the kernel's process: a fault may have spoilt it. The next call starts another."""
        if self._kernel_process:
            self._kernel_process.close()

    def kernel_memory(self) -> int | None:
        """Return the bytes of memory that the kernel's process holds for itself; None where that is not known."""
        return self._kernel_process.memory() if self._kernel_process else None

    def kernel_delay(self) -> float:
        """Return the seconds that the kernel's process waited for a core of this machine, as far as is known."""
        return self._kernel_process.delay() if self._kernel_process else 0.0

    def kernel_cpu_seconds(self) -> float:
        """Return the CPU time that the kernel's process has used, with the processes below it, as far as is known."""
        return self._kernel_process.cpu_seconds() if self._kernel_process else 0.0

    def kernel_children(self) -> list[int]:
        """Return numbers that change when a process below the kernel's process starts, works or ends."""
        return self._kernel_process.work_below() if self._kernel_process else []

    def compare(
        self,
        results: Mapping[str, Array],
        golden: Mapping[str, npt.NDArray[np.float64]],
        baseline: Sequence[Mapping[str, Array]],
        nudged: Sequence[Mapping[str, npt.NDArray[np.float64]]],
        units: Mapping[str, float],
        steps: Mapping[str, int],
        *,
        axes: Mapping[str, Sequence[str]] | None = None,
        shortened: Callable[[], Mapping[str, npt.NDArray[np.float64]]] | None = None,
    ) -> None:
        """Compare every output with its golden, and hold it to the budget of :func:`kernel_matrix.job.accuracy.budget`.

        ``nudged`` are goldens of inputs that :meth:`nudge` changed, and ``baseline`` is what the baseline gives in the
        same dtype, for the inputs and for such copies of them. ``units`` says what "unit scale" means for an output
        (its input's scale where it follows the input). ``steps`` says how many rounded operations make it, one after
        the other.

        Two more are for the faults that some cases put into their results, to see that the comparison finds them:
        ``axes`` names the axes of an output (``tokens``, ``streams``), and ``shortened`` returns the goldens of those
        outputs that sum over tokens, for inputs without the last token.

        Raises:
            OutOfBudgetError: after all outputs were measured, naming every one that is outside.
            ValueError: an output is missing or has another shape.
        """
        rules = functools.partial(rules_of, self.accuracy, self.op, self.direction)
        compared = compare_outputs(results, golden, baseline, nudged, units, steps, rules)
        self._record(compared)
        if faults := [f"{output}: {fault}" for output, one in compared.items() for fault in one.faults]:
            raise OutOfBudgetError("; ".join(faults))
        if self.canary:
            self._try_canaries(compared, axes or {}, shortened() if shortened else {})

    def limit_growth(self, output: str) -> float:
        """Return how fast the error of an output may grow with the number of tokens, by matrix.yaml.

        The name of the output may end with the name of a variant (``phi@tensor_cores``).

        Raises:
            RuntimeError: matrix.yaml has no such rule.
        """
        if (limits := self.accuracy.get("growth")) is None:
            raise RuntimeError("matrix.yaml does not say how fast an error may grow: write accuracy.growth")
        return float(limits["sums" if output.partition("@")[0] in self.sums else "others"])

    def _record(self, compared: Mapping[str, Comparison]) -> None:
        """Record the figures and the sample of each output."""
        for output, comparison in compared.items():
            self._compared += comparison.errors.elements
            self.metrics |= comparison.metrics(output)
            if comparison.result.dtype in inputs.DTYPES.values():
                self.samples[output] = sample.take(self._key, output, comparison.result)
        self.metrics["elements"] = self._compared

    def _try_canaries(
        self, compared: Mapping[str, Comparison], axes: Mapping[str, Sequence[str]], shortened: Mapping[str, Golden]
    ) -> None:
        """Put known faults into the results, and record how many of them the comparison finds.

        Raises:
            BlindComparisonError: it does not find all of them.
        """
        subjects = {
            output: Subject(one.result, one.golden, one.budget, axes.get(output, ()))
            for output, one in compared.items()
        }
        canaries = try_canaries(subjects, shortened)
        missed = [f"{canary.fault} in {canary.output}" for canary in canaries if not canary.caught]
        self.metrics["canary.injected"] = self.metrics.get("canary.injected", 0) + len(canaries)
        self.metrics["canary.caught"] = self.metrics.get("canary.caught", 0) + len(canaries) - len(missed)
        if missed:
            self.facts["canary.missed"] = "; ".join(missed)
            raise BlindComparisonError(f"the comparison does not find a fault that was put in: {'; '.join(missed)}")

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Have the machine to itself until the block ends. Before and after it, other jobs may run too."""
        asks = self._job.get("asks_for_quiet", False)
        if asks:
            self._wait(quiet.begin)
        self._is_quiet = True
        try:
            yield
        finally:
            self._is_quiet = False
            if asks:
                self._wait(quiet.end)

    def _wait(self, wait: Callable[[Journal, str], None]) -> None:
        began = time.perf_counter()
        wait(self._journal, self.id)
        self.waited += time.perf_counter() - began

    def record_race(self, times: Mapping[str, float]) -> None:
        """Record the times that :func:`kernel_matrix.job.race.race` returned in the kernel's process.

        Raises:
            RuntimeError: this is not in a block of :meth:`quiet`, so that other jobs may have changed the times.
        """
        if not self._is_quiet:
            raise RuntimeError("the race was not in quiet: take and record its times in a block 'with case.quiet():'")
        self.metrics |= {name: float(value) for name, value in times.items() if name.startswith("time.")}

    def record_repeat(self, *, same: bool) -> None:
        """Record that the kernel ran once more on the same inputs, and whether each output had the same bits."""
        self.metrics["repeats"] = self.metrics.get("repeats", 0) + 1
        self.metrics["repeats_differing"] = self.metrics.get("repeats_differing", 0) + (not same)

    def compiled(self, kind: str, data: bytes, resources: Mapping[str, float], *, name: str = "") -> None:
        """Record the artifact that a compiler made: its kind, its bytes and the resources that the toolchain reports.

        A case with several artifacts calls this once for each, and gives each a ``name``. The case then has the figures
        of each, the sum of their bytes, and the largest of every other resource. It is **lowered** if one of them is
        source.

        Raises:
            ValueError: it made nothing, or the name is none, or another artifact has it.
            LimitError: it compiles, and the target cannot launch it.
        """
        hold(self.target, resources)
        facts, metrics = self._artifacts.add(kind, data, resources, name)
        self.facts |= facts
        self.metrics |= metrics

    def compile(self, function: str, arrays: Mapping[str, Array] | None = None, **options: Any) -> None:
        """Call a function of the kernel's process that compiles, and record the artifacts that it returns.

        It returns what :func:`kernel_matrix.job.ahead.sent` makes of them.

        Raises:
            KernelProcessError: it did not compile, or the process died.
        """
        told, codes = self.call(function, arrays, **options)
        for name, artifact in told.items():
            self.compiled(
                artifact["kind"], codes[name].tobytes(), artifact["resources"], name=name if len(told) > 1 else ""
            )

    def require_proof(self) -> None:
        """Check that the test proved something of the case.

        Raises:
            RuntimeError: it compared, compiled or timed nothing.
        """
        if self.action == "compile":
            if "artifact.kind" not in self.facts:
                raise RuntimeError("the case ended without an artifact: nothing was compiled")
        elif self._compared == 0:
            raise RuntimeError("the case ended without a comparison: no number was checked")
        elif self.timed and "time.ratio" not in self.metrics:
            raise RuntimeError("the case ended without a race: nothing was timed")
        elif self.canary and not self.metrics.get("canary.injected"):
            raise RuntimeError("the case ended without a fault put in: whether the comparison finds one is not known")
