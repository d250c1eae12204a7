"""The kernel of a case, as the process that compares sees it: arrays in, results out, and all bytes around them."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernel_matrix.job.budget import rules_of
from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.comparison import compare_outputs
from kernel_matrix.job.inputs import Array
from kernel_matrix.job.kernel_process import DeviceMissingError, KernelProcessError
from kernel_matrix.job.small_rows import faults_of_small_rows
from kernel_matrix.kit import draws, plain
from kernel_matrix.kit.description import Operator, hold_reasons
from kernel_matrix.kit.frameworks import framework
from kernel_matrix.kit.laying import FILLS, INTO, layout_of
from kernel_matrix.kit.layouts import PACKED, UNWRITTEN, of_rows, opened, place_of, same_bytes, same_rows
from kernel_matrix.kit.misbehaviour import MisbehavedError, WrongResultError
from kernel_matrix.kit.orders import in_other_orders
from kernel_matrix.kit.state import FIRST_CALL

_SIDE = "kernel_matrix.kit.kernel_side"


def facts_of(case: RunningCase, op: Operator, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a function of the suite gets to know of a case in the kernel's process."""
    return {
        "op": case.op,
        "direction": case.direction,
        "backend": case.backend,
        "device": case.device,
        "target": None if case.interpreted else case.target,
        "axes": dict(sizes),
        "options": op.options_of(sizes),
    }


class Running:
    """One case of an operator: its inputs, its kernel in another process, and what was seen of it so far."""

    def __init__(self, case: RunningCase, op: Operator, values: draws.Arrays | None = None) -> None:
        """``values`` are the inputs; by default they are drawn."""
        self.case, self.op, self.sizes = case, op, dict(case.axes)
        self.frame = framework(op.framework)
        self.without = hold_reasons(op.name, op.without(case)) if callable(op.without) else op.without
        self.backward = bool(op.differentiable) and case.direction == "backward"
        self.asked = [n for n in op.differentiable if op.inputs[n].is_there(self.sizes)] if self.backward else []
        if self.backward and not self.asked:
            raise ValueError(
                f"no input of this case of {op.name} has a gradient, so it has no backward: leave the case out "
                "(exclusions in matrix.yaml)"
            )
        self.given = draws.drawn(case, op, self.sizes, given=values)
        self.variants, self.variant = [""], ""  # of the kernel: another one's name begins with @
        self.outs: dict[str, draws.Arrays] = {}  # of the first run of each variant
        self.facts: dict[str, Any] = {}  # of the last run
        self.rounds: dict[str, list[Array]] = {}  # the results of each backward of the last run
        self.several: list[draws.Arrays] = []  # the results of each run of the last call
        self.left = 0  # bytes that every poisoned run has left behind
        self.memory_before: int | None = None  # of the kernel's process, after the first run
        self.not_asked: dict[str, str] = {}
        self._secret = 0  # of the guards of the last run: a kernel that knows those of one run knows no others
        self._seen: set[Any] = set()
        self._kernels: dict[Any, dict[str, Any]] = {}

    @property
    def out(self) -> draws.Arrays:
        """The results of the first run of the variant."""
        return self.outs.get(self.variant, {})

    @out.setter
    def out(self, results: draws.Arrays) -> None:
        self.outs[self.variant] = results

    @property
    def by_row(self) -> list[str]:
        """The inputs, and gradients that come in, whose first axis counts rows."""
        inputs = self.op.by_row({**self.op.inputs, **(self.op.incoming if self.backward else {})})
        return [name for name in inputs if name in self.given]

    @property
    def results_by_row(self) -> list[str]:
        """The results whose first axis counts rows."""
        return [name for name in self.op.by_row(self.op.inputs if self.asked else self.op.outputs) if name in self.out]

    @property
    def has_once(self) -> bool:
        """True if the case is one of those that have the checks which are made once."""
        return all(self.sizes.get(axis) == value for axis, value in self.op.once.items())

    @property
    def repeats_less(self) -> bool:
        """True where a kernel takes long: an interpreter or an emulator runs it."""
        return self.case.action == "emulate"

    def kernel(self, sizes: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the kernel's process gets to know, for the values of the axes."""
        key = tuple(sizes.values())
        if key not in self._kernels:
            self._kernels[key] = self._described(sizes)
        return self._kernels[key]

    def _described(self, sizes: Mapping[str, Any]) -> dict[str, Any]:
        op, case = self.op, self.case
        outputs = {
            n: [list(k.shape(sizes)), draws.dtype_of(k, case.axes).name] for n, k in op.outputs_of(sizes).items()
        }
        computes = bool(op.forbidden or op.operators is not None) and "operators" not in self.without
        return {
            "function": op.kernels or self._path(),
            "makes": bool(op.kernels),
            "case": self.of_case(sizes),
            "framework": op.framework,
            "device": case.device,
            "inputs": list(op.inputs),
            "results": list(op.outputs),
            "args": list(op.inputs_of(sizes)),
            "floats": [name for name, kind in op.inputs_of(sizes).items() if not kind.whole],
            "outputs": outputs,
            "writes": list(outputs) if op.writes else [],
            "in_place": list(op.in_place),
            "by_row": self.by_row,
            "options": op.options_of(sizes),
            "module": op.module,
            "incoming": list(op.incoming_of(sizes)) if self.backward else [],
            "forbidden": list(op.forbidden),
            "computes": computes,
            "guards": computes or op.operators is None,
        }

    def of_case(self, sizes: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a function of the suite gets to know of the case, for the values of the axes."""
        return facts_of(self.case, self.op, sizes)

    def find_variants(self, sizes: Mapping[str, Any] | None = None) -> list[str]:
        """Return the names of the variants of the kernel, the chosen one first."""
        kernel = self.kernel(sizes or self.sizes)
        if not kernel["makes"]:
            return [""]
        names, _ = self.case.call(f"{_SIDE}:variants", kernel=kernel)
        return [str(name) for name in names]

    def ask(self, function: str, values: Mapping[str, Array]) -> Any:
        """Call a function of the suite (``module:function``) in the kernel's process, with arrays of the framework."""
        value, _ = self.case.call(f"{_SIDE}:ask", values, kernel=self.kernel(self.sizes), path=function)
        return value

    def _path(self) -> str:
        """Return ``package.module:function``, from matrix.yaml or from the description.

        Raises:
            ValueError: neither says it.
        """
        path = self.case.kernel or self.op.kernel
        if not path:
            raise ValueError(f"nothing names the kernel of {self.op.name}: write toolchains.NAME.kernel in matrix.yaml")
        return path.format(**{**self.case.axes, "backend": self.case.backend, "op": self.case.op})

    def run(
        self,
        values: Mapping[str, Array],
        sizes: Mapping[str, Any] | None = None,
        asked: Sequence[str] | None = None,
        what: str = "",
        *,
        only: Sequence[str] | None = None,
        runs: int = 1,
        **how: Any,
    ) -> draws.Arrays:
        """Call the kernel, and look at everything else that it did; ``what`` says in words which run it is.

        With ``only`` the kernel is to write these outputs alone. ``several`` has the results of each of ``runs``.

        Raises:
            MisbehavedError, WrongResultError: it did more than compute, or a result is missing or of another kind.
        """
        case, kernel = self.case, self.kernel(sizes or self.sizes)
        asked = list(self.asked if asked is None else asked)
        if only is not None:
            kernel = {**kernel, "writes": list(only), "outputs": {name: kernel["outputs"][name] for name in only}}
        shapes = self._shapes(values, how).values()
        way = how.get("layout", PACKED), how.get("mode", ""), bool(how.get("poison"))
        key = (self.variant, *way, *asked, *kernel["outputs"], *shapes)
        children = case.kernel_children()
        self._secret, how["variant"] = secrets.randbits(62), self.variant
        try:
            told = {"secret": self._secret, "asked": asked, "runs": runs, "first": not self._seen, **how}
            facts, back = case.call(f"{_SIDE}:run", values, kernel=kernel, **told)
        except KernelProcessError as error:
            if error.stage == "crash" and what:
                raise KernelProcessError(f"{error.text}{what}", error.detail, error.stage) from None
            raise
        known, worked = key in self._seen, case.kernel_children() != children
        self._seen.add(key)
        self.facts = facts
        self._take(values, kernel, back, asked, runs, what, how)
        self._look_at_process(facts, known=known, worked=worked)
        return self.several[-1]

    def _take(
        self,
        values: Mapping[str, Array],
        kernel: Mapping[str, Any],
        back: draws.Arrays,
        asked: Sequence[str],
        runs: int,
        what: str,
        how: Mapping[str, Any],
    ) -> None:
        """Look at the memory of every run, and keep its results. The inputs come back after the last one."""
        changed = {name: values[name] for name in kernel["in_place"]}
        self.several = []
        for number in range(runs):
            last = number + 1 == runs
            one = back if last else {n.partition("/")[2]: a for n, a in back.items() if n.startswith(f"{number}/")}
            self._look_at_memory(values if last else changed, kernel, one, what, how)
            self.several.append(self._results(kernel, one, values, asked, what, how))

    def _shapes(self, values: Mapping[str, Array], how: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        """Return the shapes of inputs, as the kernel gets them."""
        times = int(how.get("rows", 1))
        return {name: of_rows(one.shape, times if name in self.by_row else 1) for name, one in values.items()}

    def attempt(self, code: str, values: Mapping[str, Array], sentence: str, *given: Any, **how: Any) -> draws.Arrays:
        """Call the kernel as :meth:`run` does, where an error of it is a fault with a sentence of its own.

        Raises:
            WrongResultError: the kernel raised an error.
        """
        try:
            return self.run(values, *given, **how)
        except KernelProcessError as error:
            if error.stage == "crash" or isinstance(error, DeviceMissingError):
                raise
            raise WrongResultError(code, f"{sentence}: {error.text.splitlines()[-1]}") from None

    def _look_at_memory(
        self,
        values: Mapping[str, Array],
        kernel: Mapping[str, Any],
        back: draws.Arrays,
        what: str,
        how: Mapping[str, Any],
    ) -> None:
        """Compare all bytes around the kernel's arrays, and those of its inputs."""
        arrays = {name: (shape, values[name].dtype.name) for name, shape in self._shapes(values, how).items()}
        for name in kernel["writes"]:
            shape, kind = kernel["outputs"][name]
            arrays[INTO + name] = tuple(shape), kind
        for slot, (shape, kind) in arrays.items():
            is_input, name = slot in values, slot.removeprefix(INTO)
            came = back.pop(f"memory {slot}", None)
            if came is None:
                raise MisbehavedError("kit-changed-input", f"the kernel has given its input {name} away{what}")
            if self.frame.lays:
                layout = layout_of(slot, kernel, str(how.get("layout", PACKED)))
                fill = UNWRITTEN if is_input else FILLS[str(how.get("poison", ""))]
                there = opened(came, place_of(shape, np.dtype(kind), layout), self._secret, fill)
                role = "input" if is_input else "output"
                if not there.guards:
                    self._hold("guards", "kit-past-end", f"the kernel wrote past an end of its {role} {name}{what}")
                if not there.gaps:
                    text = f"the kernel wrote between the elements of its {role} {name}{what}"
                    self._hold("guards", "kit-gaps", text)
                came = there.values
            if not is_input:
                back[f"out0 {name}"] = came
            elif name not in kernel["in_place"] and not same_rows(came, values[name]):
                self._hold("inputs", "kit-changed-input", f"the kernel changed its input {name}{what}")

    def _look_at_process(self, facts: Mapping[str, Any], *, known: bool, worked: bool) -> None:
        """Look at what the kernel did to its process; ``known`` says that it has run on such inputs before."""
        soft = (*FIRST_CALL, *self.frame.settings)
        changed = [name for name in facts["changed"] if known or name.partition(" (")[0] not in soft]
        if changed:
            self._hold("state", "kit-changed-process", f"the kernel changed {', '.join(changed)}")
        if facts["scratch"]:
            text = f"the kernel wrote past an end of memory that it allocated: {', '.join(facts['scratch'][:3])}"
            self._hold("guards", "kit-past-scratch", text)
        if known and worked and (self.case.action == "run" or self.case.interpreted):
            self._hold("processes", "kit-other-process", "another process started or worked while the kernel ran")
        if self.op.operators is not None and (others := set(facts["operators"]) - set(self.op.operators)):
            text = f"the kernel computes with {self.frame.title}: {', '.join(sorted(others))}"
            self._hold("operators", "kit-operators", text)
        if facts["marked"]:
            self._hold("inputs", "kit-changed-input", f"the kernel changed its input {', '.join(facts['marked'])}")
        if facts["odd"]:
            raise WrongResultError("kit-kind", ", ".join(facts["odd"]))
        if facts["overlaps"]:
            self._hold("kept", "kit-overlap", f"the rows of a result share memory: {', '.join(facts['overlaps'])}")
        if facts["aliases"]:
            text = f"the kernel gives back its own input: {', '.join(facts['aliases'])}"
            self._hold("kept", "kit-alias", text)

    def _hold(self, check: str, code: str, sentence: str) -> None:
        """Raise a fault that a check of every run has found, if the description asks for the check.

        Raises:
            MisbehavedError: it does.
        """
        if check not in self.without:
            raise MisbehavedError(code, sentence)

    def _results(
        self,
        kernel: Mapping[str, Any],
        back: draws.Arrays,
        values: Mapping[str, Array],
        asked: Sequence[str],
        what: str,
        how: Mapping[str, Any],
    ) -> draws.Arrays:
        """Return the results by their names, each of the kind that the description says."""
        shapes = self._shapes(values, how)
        wanted = {name: (values[name].dtype.name, shapes[name]) for name in asked}
        wanted = wanted or {name: (kind, tuple(shape)) for name, (shape, kind) in kernel["outputs"].items()}
        for name, (kind, shape) in wanted.items():
            one = back.get(f"out0 {name}")
            if one is None:
                raise WrongResultError("kit-kind", f"{name} did not come back{what}")
            if (one.dtype.name, one.shape) != (kind, shape):
                text = f"{name}{what} is {one.dtype.name} of shape {one.shape}, for {kind} of shape {shape}"
                raise WrongResultError("kit-kind", text)
        self.rounds = {name: [one for key, one in back.items() if key.partition(" ")[2] == name] for name in wanted}
        return {name: back[f"out0 {name}"] for name in wanted}

    def numbers(
        self, values: Mapping[str, Array], sizes: Mapping[str, Any] | None = None, nudges: int = 0
    ) -> plain.Numbers:
        """Return what results for these values are compared with."""
        given = self.case, self.op, values, sizes or self.sizes, self.asked

        def more() -> plain.Numbers:
            nudged = plain.numbers(*given, 1)
            return nudged._replace(more=functools.partial(in_other_orders, *given, nudged))

        return plain.numbers(*given, nudges)._replace(more=None if nudges else more)

    def baseline(self, values: Mapping[str, Array]) -> draws.Arrays:
        """Return what the baseline gives for these values, rounded once."""
        kinds = {name: one.dtype for name, one in self.out.items()}
        return plain.rounded(plain.of_baseline(self.op, values, self.sizes, self.asked, kinds), kinds)

    def inside(
        self, code: str, out: Mapping[str, Array], numbers: plain.Numbers, what: str, *, small_rows: bool = False
    ) -> None:
        """Hold the results of another run to the golden of its inputs.

        Raises:
            WrongResultError: a number is outside its budget.
        """
        if any(one.size == 0 for one in out.values()):
            return
        faults = self._faults(out, numbers, small_rows=small_rows)
        while faults and numbers.more:
            numbers = numbers.more()
            faults = self._faults(out, numbers, small_rows=small_rows)
        if faults:
            raise WrongResultError(code, f"{what}: {'; '.join(faults)}")

    def _faults(self, out: Mapping[str, Array], numbers: plain.Numbers, *, small_rows: bool) -> list[str]:
        """Return the numbers outside their budgets, in words."""
        rules = functools.partial(rules_of, self.case.accuracy, self.case.op, self.case.direction)
        compared = compare_outputs(out, *numbers[:-1], rules)
        faults = [f"{name}: {fault}" for name, one in compared.items() for fault in one.faults]
        for name, one in compared.items() if small_rows and not faults else ():
            copies = [copy[name] for copy in numbers.baseline], [copy[name] for copy in numbers.nudged]
            found = faults_of_small_rows(one.result, one.golden, *copies, one.steps, rules(name))
            faults += [f"{name}: {fault}" for fault in found]
        return faults

    def same(self, code: str, out: Mapping[str, Array], what: str, *, other_code: bool = False) -> None:
        """Hold the results of another run on the same inputs to the bits of the first, or to their budget.

        ``other_code``: a compiler may make another kernel for this run, with a budget and no bits in common.

        Raises:
            WrongResultError: they are others.
        """
        differing = [name for name, one in out.items() if not same_bytes(one, self.out[name])]
        if not differing:
            return
        if self.op.same_bits and not other_code:
            raise WrongResultError(code, f"{what}: {', '.join(differing)}")
        self.inside(code, out, self.compared.of(out), what)

    @functools.cached_property
    def compared(self) -> plain.Numbers:
        """Return what the results for the case's own inputs are compared with."""
        return self.numbers(self.given, nudges=3)
