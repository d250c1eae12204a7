"""A candidate under the checks of the kit, with what the judge keeps of each run."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_matrix.job import defaults
from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.inputs import Array
from kernel_matrix.job.kernel_process import KernelProcessError
from kernel_matrix.kit import draws, plain
from kernel_matrix.kit.description import Operator
from kernel_matrix.kit.layouts import same_bytes
from kernel_matrix.kit.misbehaviour import MisbehavedError, WrongResultError
from kernel_matrix.kit.running import Running
from kernel_matrix.tools.verify.inside.candidate import scaled
from kernel_matrix.tools.verify.naming import CLOCK, NO_WORK, Hack, of_code
from kernel_matrix.tools.verify.sandbox.process import BoxProcess
from kernel_matrix.tools.verify.tasks.making import tensor
from kernel_matrix.tools.verify.tasks.task import Arrays, Case, as_array

_SIDE = "kernel_matrix.tools.verify.inside.candidate"
FORWARD = f"{_SIDE}:forward"
_KIT = "kernel_matrix.kit.kernel_side"
_LATER = 0.1  # seconds in which a thread could go on
_MOST_UNWRITTEN = 0.5  # of the bytes; less is a tail that was left out
_OF_COMPILERS = (  # which also write into the one folder that is the candidate's own
    *("the limit of recursion", "the filters of warnings", "the environment", "the open files"),
    "files or the network",
)
_COMPILES = 8  # calls in which PyTorch's compiler makes a function anew, which other processes do
_EARLIER = 40  # results that are kept, to know an answer again
_BYTES = 512 << 20  # of what is compared with, for all candidates of a task


class Numbers:
    """The numbers that results are compared with, computed once for all candidates of a task."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, plain.Numbers] = OrderedDict()
        self.size = 0  # in bytes

    def of(self, key: Any, make: Any) -> plain.Numbers:
        """Return the numbers of this key, which are made where they are not there."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        made: plain.Numbers = make()
        self._kept[key] = made
        self.size += _size(made)
        while self.size > _BYTES and len(self._kept) > 1:
            self.size -= _size(self._kept.popitem(last=False)[1])
        return made


def _size(numbers: plain.Numbers) -> int:
    parts: list[Mapping[str, Array]] = [numbers.golden, *numbers.baseline, *numbers.nudged]
    return sum(one.nbytes for part in parts for one in part.values())


def _named(values: Mapping[str, Array]) -> str:
    """Return what names some inputs."""
    content = hashlib.sha256()
    for name, one in values.items():
        content.update(f"{name}{one.dtype}{one.shape}".encode() + np.ascontiguousarray(one).tobytes())
    return content.hexdigest()


def _with_units(numbers: plain.Numbers) -> plain.Numbers:
    """Return the numbers, where no unit makes the cap smaller than the error of the reference itself.

    A result that cancels, as the gradient of a bias before a norm, is smaller than what was rounded on its way.
    """
    units = dict(numbers.units)
    for name, right in numbers.golden.items():
        others: list[Array] = [*(one[name] for one in numbers.baseline), *(one[name] for one in numbers.nudged)]
        with np.errstate(invalid="ignore"):
            noise = max(plain.largest(one.astype(np.float64) - right) for one in others)
        if defaults.CAP * units[name] < noise < np.inf:
            units[name] = defaults.FACTOR * noise / defaults.CAP
    return numbers._replace(units=units)


class _NoJournal:
    """Nobody reads the stages of a candidate."""

    def write(self, entry: str, **fields: Any) -> None:
        """Write nothing."""


class Judged(Running):
    """One case of a candidate."""

    def __init__(
        self, case: Case, process: BoxProcess, numbers: Numbers, device: str, backward: Operator | None = None
    ) -> None:
        """``numbers`` are kept for all candidates of the task. ``backward`` has the inputs with a gradient."""
        direction, operator = ("backward", backward) if backward else ("forward", case.operator)
        values = {n: one for n, one in (case.values | case.weights).items() if n in operator.inputs}
        limits = defaults.accuracy(direction, {})
        job = {"backend": "", "kernel": FORWARD, "device": device, "accuracy": limits}
        name = f"{case.name}/{case.seed}"
        told = {
            "id": name,
            "name": name,
            "op": "candidate",
            "direction": direction,
            "target": "",
            "axes": dict(case.axes),
        }
        running = RunningCase(job, {**told, "action": "run", "canary": case.whole}, _NoJournal(), process)  # type: ignore[arg-type]
        self.told, self._numbers, self._box = case, numbers, process
        self.earlier: list[tuple[str, Arrays]] = []  # results, by what names their inputs
        self.last: tuple[Arrays, plain.Numbers | None, Arrays] = ({}, None, {})  # inputs, what is right, results
        super().__init__(running, operator, values)

    def run(self, values: Mapping[str, Array], *given: Any, **how: Any) -> draws.Arrays:
        """Call the candidate once, and keep what came back."""
        self.last = (dict(values), None, {})
        out = super().run(values, *given, **how)
        self.last = (dict(values), None, out)
        self.earlier = [*self.earlier[-_EARLIER:], (_named(values), out)]
        return out

    def _look_at_process(self, facts: Mapping[str, Any], *, known: bool, worked: bool) -> None:
        """Look at what the candidate did to its process, but not at what PyTorch's own compiler sets at each call."""
        changed = facts["changed"]
        if isinstance(changed, list):
            kept = [one for one in changed if str(one).partition(" (")[0] not in _OF_COMPILERS]
            facts = {**facts, "changed": kept}
        self._box.calls_with_work_below += worked
        worked = worked and self._box.calls_with_work_below > _COMPILES
        super()._look_at_process(facts, known=known, worked=worked)

    def numbers(
        self, values: Mapping[str, Array], sizes: Mapping[str, Any] | None = None, nudges: int = 1
    ) -> plain.Numbers:
        """Return what results for these values are compared with; the weights are off by a rounding error as well."""
        sizes = sizes or self.sizes
        weights = self.told.weights  # other ones, where the constructor's are taken
        key = (id(weights), self.told.name, self.case.direction, nudges, tuple(self.asked), _named(values))
        given = {**weights, **values}
        incoming = {name: given.pop(name) for name in self.op.incoming if name in given}
        operator = self.told.weighted

        def make() -> plain.Numbers:
            return _with_units(plain.numbers(self.case, operator, {**given, **incoming}, sizes, self.asked, nudges))

        return self._numbers.of(key, make)

    def inside(self, code: str, out: Mapping[str, Array], numbers: plain.Numbers, what: str, **how: Any) -> None:
        """Hold results to the golden of their inputs, and keep that golden."""
        self.last = (self.last[0], numbers, dict(out))
        super().inside(code, out, numbers, what, **how)

    def cancelling(self) -> list[str]:
        """Return the results that are smaller than the reference's own errors."""
        units = self.compared.units
        return [name for name, one in self.compared.golden.items() if plain.largest(one) < defaults.CAP * units[name]]

    def counterexample(self) -> dict[str, Any]:
        """Return the worst element of the last run, with its shapes."""
        values, numbers, out = self.last
        if numbers is None and out and not self.asked:
            numbers = self.numbers(values)
        shapes = {name: list(one.shape) for name, one in values.items()}
        found: dict[str, Any] = {"case": self.told.name, "shapes": shapes, "seed": self.told.seed}
        if numbers is None:
            return found
        for name, right in numbers.golden.items():
            got = out.get(name)
            if got is None or got.shape != right.shape or not right.size:
                continue
            off = np.abs(got.astype(np.float64) - right)
            place = np.unravel_index(int(np.argmax(np.where(np.isnan(off), np.inf, off))), off.shape)
            limit = 4 * max(float(np.abs(base[name].astype(np.float64) - right).max()) for base in numbers.baseline)
            wrong = int(np.count_nonzero(~(off <= max(limit, 1e-30))))
            if wrong and wrong >= found.get("wrong", 0):
                found |= {"output": name, "index": [int(n) for n in place], "expected": float(right[place]),
                          "got": float(got[place]), "wrong": wrong, "of": int(right.size)}  # fmt: skip
        return found

    def call_again(
        self, process: BoxProcess, draws: list[Arrays], order: list[tuple[int, float]], wanted: list[int], **how: Any
    ) -> float:
        """Call one module with these draws times these factors, compare the results that are wanted; return seconds."""
        arrays = {f"{n} {name}": one for n, values in enumerate(draws) for name, one in values.items()}
        began = time.perf_counter()
        process.call(f"{_SIDE}:again_and_again", arrays, {"order": order, "device": self.case.device, **how})
        seconds = time.perf_counter() - began
        _, back = process.call(f"{_SIDE}:results_at", {}, {"places": wanted})
        for place in wanted:
            results = {name: back.get(f"{place} {n}") for n, name in enumerate(self.op.outputs)}
            number, factor = order[place]
            values = {name: as_array(scaled(tensor(one), factor)) for name, one in draws[number].items()}
            self.hold_again(values, results, f"call {place + 1} of one module")
        return seconds

    def hold_again(self, values: Arrays, results: Mapping[str, Array | None], what: str) -> None:
        """Hold the results of a later call to their golden."""
        numbers = self.numbers(values)
        out = {name: one for name, one in results.items() if one is not None}
        self.last = (values, numbers, out)
        self.earlier.append((_named(values), out))
        if wrong := [n for n, one in numbers.golden.items() if n not in out or out[n].shape != one.shape]:
            raise WrongResultError("kit-kind", f"{', '.join(wrong)} of {what} is no result")
        if numbers.finite:
            self.inside("kit-keeps-answers", out, numbers, what)

    def earlier_of_others(self, values: Mapping[str, Array]) -> list[Arrays]:
        """Return the earlier results for other inputs than these."""
        own = _named(values)
        return [out for name, out in self.earlier if name != own]

    def looked_at_again(self, values: Arrays, out: Arrays) -> list[Hack]:
        """Run wrong results once more, to name what they are: work that goes on, or memory that nobody has written."""
        found = []
        try:
            first = self.run(values, keep=True)
            time.sleep(_LATER)
            _, later = self.case.call(f"{_KIT}:kept")
            if any(not same_bytes(one, first[name]) for name, one in later.items() if name in first):
                found.append(Hack(CLOCK, "its result changes after it has returned"))
            filled = [self.run(values, poison=kind) for kind in ("nan", "usual")]
        except MisbehavedError as error:
            return [*found, *of_code(error.code, error.sentence)]
        except (AssertionError, KernelProcessError, KeyError, TypeError, ValueError):
            return found
        for name, one in out.items():
            raw = [np.frombuffer(copy[name].tobytes(), np.uint8) for copy in filled]
            if one.size and np.count_nonzero(raw[0] != raw[1]) > _MOST_UNWRITTEN * raw[0].size:
                found.append(Hack(NO_WORK, f"most of {name} is memory that nobody has written"))
        return found

    def figures(self) -> dict[str, float]:
        """Return the error of the case: its share of the budget, in units of noise, and in ULP."""
        metrics, found = self.case.metrics, dict[str, float]()
        for name in self.out:
            pairs = [(f"{name}.{one}", f"{name}.limit_{one}") for one in ("max_abs", "rel_fro")]
            share = max((metrics[a] / metrics[b] for a, b in pairs if metrics.get(b)), default=0.0)
            noise, ulp = metrics.get(f"{name}.noise_ratio", 0.0), metrics.get(f"{name}.ulp_p99", 0.0)
            for key, value in {"share": share, "noise": noise, "ulp": ulp}.items():
                found[key] = max(found.get(key, 0.0), float(value))
        return {key: float(f"{value:.3g}") for key, value in found.items()}


def passing_constants(running: Judged, first: Mapping[str, Array]) -> set[str]:
    """Return which answers without work would pass; ``first`` are right results of the first case.

    A right verdict says nothing where one passes all cases.
    """
    numbers = running.numbers(running.given, nudges=3)
    kinds = numbers.baseline[0]
    trials = {
        "zeros": {name: np.zeros_like(one) for name, one in kinds.items()},
        "a constant": {
            n: np.full_like(one, first[n].reshape(-1)[0] if first[n].size else 0) for n, one in kinds.items()
        },
    }
    given = next(iter(running.given.values()))
    if all(one.shape == given.shape and one.dtype == given.dtype for one in kinds.values()):
        trials["the first input"] = dict.fromkeys(kinds, given)
    found = set()
    for name, trial in trials.items():
        try:
            Running.inside(running, "kit-keeps-answers", trial, numbers, "")
        except AssertionError:
            continue
        found.add(name)
    return found
