"""The case that a suite's test gets while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from kernel_matrix.job import inputs
from kernel_matrix.job.accuracy import Budget, Errors, Golden, budget, measure, worst
from kernel_matrix.job.inputs import Array
from kernel_matrix.job.journal import FIRST_STAGE, Journal
from kernel_matrix.job.race import race


class OutOfBudgetError(AssertionError):
    """A result is further from the golden than its budget allows."""


class RunningCase:
    """One case for one test of the suite: the test reads from it what to do, and records the results in it.

    ``action`` is ``run`` (on real hardware of the target), ``emulate`` or ``compile``. ``device`` is ``cpu``, or
    ``cuda`` for a GPU of any vendor. ``interpreted`` says that an interpreter stands in for the target, and nothing is
    made for the target. A test that skips says that its device is not here: the case is ``unavailable``.
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
        self.last_stage = FIRST_STAGE

    def draw(self, tensor: str, shape: tuple[int, ...], *, scale: float = 1.0, mean: float = 0.0) -> Array:
        """Return values of variance ``scale``² around ``mean``, float64; the case's name alone determines them."""
        values = inputs.normal(f"{self.op}.{self.direction}/{self.name}/{tensor}", shape)
        return values * scale + mean

    def nudge(self, tensor: str, values: npt.NDArray[np.float64], sample: int = 0) -> npt.NDArray[np.float64]:
        """Return ``values`` off by one rounding error of fp32 each; the case's name determines up or down."""
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
        baseline: Sequence[Mapping[str, Array]],
        nudged: Sequence[Mapping[str, npt.NDArray[np.float64]]],
        units: Mapping[str, float],
        steps: Mapping[str, int],
    ) -> None:
        """Compare every output with its golden, and hold it to the budget of :func:`kernel_matrix.job.accuracy.budget`.

        ``nudged`` are goldens of inputs that :meth:`nudge` changed, and ``baseline`` is what the baseline gives in the
        same dtype, for the inputs and for such copies of them. ``units`` says what "unit scale" means for an output
        (its input's scale where it follows the input). ``steps`` says how many rounded operations make it, one after
        the other.

        Raises:
            OutOfBudgetError: after all outputs were measured, naming every one that is outside.
            ValueError: an output is missing or has another shape.
        """
        if results.keys() != golden.keys():
            raise ValueError(f"the outputs are {sorted(results)}; the golden has {sorted(golden)}")
        faults = []
        for output, expected in golden.items():
            floor = worst([measure(sample[output], expected) for sample in baseline])
            conditioning = worst([measure(sample[output], expected) for sample in nudged])
            limit = self._budget(floor, conditioning, expected, results[output].dtype, units[output], steps[output])
            errors = measure(results[output], expected)
            faults += [f"{output}: {fault}" for fault in self._hold(output, errors, limit)]
            for name, figures in (("floor", floor), ("conditioning", conditioning)):
                self.metrics[f"{output}.{name}_max_abs"] = figures.max_abs
                self.metrics[f"{output}.{name}_rel_fro"] = figures.rel_fro
        self.metrics["elements"] = self._compared
        if faults:
            raise OutOfBudgetError("; ".join(faults))

    def _budget(
        self,
        floor: Errors,
        conditioning: Errors,
        golden: Golden,
        dtype: np.dtype[np.generic],
        unit: float,
        steps: int,
    ) -> Budget:
        """Return the budget of one output by the job's rules."""
        rules = self._job["accuracy"]
        factors = {name: rules[name] for name in ("factor", "rounded", "ulps")}
        return budget(
            floor, conditioning, golden, dtype, steps=steps, cap=rules["caps"][self.direction] * unit, **factors
        )

    def _hold(self, output: str, errors: Errors, limit: Budget) -> list[str]:
        """Record the errors of one output and their limits, and return the figures that are outside."""
        self._compared += errors.elements
        self.metrics |= errors.metrics(output)
        self.metrics |= {f"{output}.limit_max_abs": limit.max_abs, f"{output}.limit_rel_fro": limit.rel_fro}
        return limit.faults(errors)

    def race(self, run: Callable[[], object], baseline: Callable[[], object]) -> None:
        """Time ``run`` and ``baseline`` as :func:`kernel_matrix.job.race.race` does, and record the times."""
        self.metrics |= race(run, baseline, rest=self.device == "cpu")

    def compiled(self, kind: str, data: bytes, resources: Mapping[str, int]) -> None:
        """Record the artifact that a compiler made: its kind, its bytes and the resources that the toolchain reports.

        Raises:
            ValueError: it made nothing.
        """
        if not data:
            raise ValueError("the compiler returned an empty artifact")
        self.facts |= {"artifact.kind": kind, "artifact.sha256": inputs.digest([np.frombuffer(data, np.uint8)])}
        self.metrics |= {"artifact.bytes": len(data)} | {f"artifact.{name}": value for name, value in resources.items()}

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
