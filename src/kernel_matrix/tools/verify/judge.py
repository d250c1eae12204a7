"""Judge a candidate: the cascade, cheapest first, which ends at the first red and says what was not tried."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kernel_matrix.job.case import BlindComparisonError
from kernel_matrix.job.kernel_process import DeviceMissingError, KernelProcessError
from kernel_matrix.kit.checks.applying import does_not_apply, why_not
from kernel_matrix.kit.conform import ORDER
from kernel_matrix.kit.misbehaviour import MisbehavedError, WrongResultError
from kernel_matrix.kit.plain import PlainCodeError
from kernel_matrix.tools.verify import naming, reading
from kernel_matrix.tools.verify.judged import Judged, Numbers, passing_constants
from kernel_matrix.tools.verify.sandbox.process import BoxProcess, EndedError
from kernel_matrix.tools.verify.sandbox.server import Server
from kernel_matrix.tools.verify.tasks.task import Case, Task
from kernel_matrix.tools.verify.verdict import HACK, RIGHT, UNDECIDED, WRONG, Verdict, digest

_SIDE = "kernel_matrix.tools.verify.inside.candidate"
# What a task asks of a candidate, and what goes beyond it: its inputs are packed, have rows, and come one at a time.
REQUIRED = ("golden", "misrounded", "repeats", "unwritten", "follows", "kept", "fresh", "magnitudes", "gradients")
BEYOND = ("rows", "layouts", "memory", "sizes", "modes", "threads")
_SLOW_INTERPRETED = ("sizes", "threads")  # an interpreter takes minutes for 65,541 rows
_MISSING = re.compile(
    r"No module named '(?!reference|task_reference|solution|eval)(\w+)|CUDA_HOME|Found no NVIDIA|libcuda"
    r"|not compiled with CUDA|No CUDA GPUs|no NVIDIA driver|0 active drivers|nvcc.*not found|Ninja is required"
    r"|Unsupported conversion|Cannot call @triton.jit'd outside|CUDA driver"
)
_PATIENCE = 60.0


@dataclass(frozen=True)
class Wish:
    """The wishes of the user. ``beyond`` also tries what no task asks; ``strict`` makes that red."""

    own_kernels: bool = False
    beyond: bool = True
    strict: bool = False
    mutants: int = 0
    targets: bool = False
    patience: float = _PATIENCE


class Judge:
    """The judge of one task, for any number of candidates."""

    def __init__(self, task: Task, server: Server, wish: Wish) -> None:
        """Make the cases: their inputs and what is right are the same for all candidates.

        Raises:
            UndecidedError: there is none.
            UnusableError: the reference fails.
        """
        self.task, self.server, self.wish = task, server, wish
        self.numbers = Numbers()
        self.cases, self.skipped = task.cases()
        self._free: list[str] | None = None  # the answers without work that pass

    def verdict(self, source: str) -> Verdict:
        """Return the verdict on a candidate."""
        began = time.process_time()
        out = Verdict(
            form=self.task.form, device=self.server.device, candidate=digest(source), sandbox=self.server.description
        )
        out.notes, out.not_tried, out.advice = list(self.task.notes), list(self.skipped), reading.notes(source)
        hacks: list[naming.Hack] = []
        with self.server.process() as process:
            process.patience(self.wish.patience)
            with self._ended(out, hacks, process):
                self._load(process, source)
                self._cascade(process, source, out, hacks)
            ended = process.end()
        self._decide(out, hacks)
        out.cpu_seconds = {"judge": round(time.process_time() - began, 3), "candidate": round(ended.get("cpu", 0.0), 3)}
        return out

    def _load(self, process: BoxProcess, source: str) -> None:
        words = {
            "source": source,
            "entry": self.task.entry,
            "modules": dict(self.task.modules),
            "patch": self.task.patch,
        }
        process.call(f"{_SIDE}:load", {}, words)

    @contextmanager
    def _ended(self, out: Verdict, hacks: list[naming.Hack], process: BoxProcess) -> Iterator[None]:
        """Turn the end of the cascade into a verdict."""
        try:
            yield
        except _RedError as red:
            out.verdict, out.reason = WRONG, red.reason
            out.evidence.append(red.reason)
            hacks += red.hacks
        except BlindComparisonError as error:
            out.verdict, out.reason = UNDECIDED, f"the comparison does not see a fault that was put in: {error}"
        except DeviceMissingError as error:
            out.verdict, out.reason = UNDECIDED, f"its device is not here: {error.text[:200]}"
        except KernelProcessError as error:
            self._failed(error, out, hacks)
        except PlainCodeError as error:
            out.verdict, out.reason = UNDECIDED, f"the reference fails: {str(error)[:200]}"
        if out.verdict == WRONG:
            hacks += _inspected(process)

    def _failed(self, error: KernelProcessError, out: Verdict, hacks: list[naming.Hack]) -> None:
        text = error.text.strip().splitlines()[-1][:400] if error.text.strip() else "an error without a text"
        everything = f"{error.text}\n{error.detail}"
        hacks += naming.of_end(error.stage, text) if isinstance(error, EndedError) else naming.of_error(everything)
        if not hacks and (found := _MISSING.search(everything)):
            out.verdict, out.reason = UNDECIDED, f"this machine has not what it needs: {found.group(0)} ({text[:160]})"
            return
        out.verdict, out.reason = WRONG, f"it fails: {text}"
        out.evidence.append(out.reason)

    def _cascade(self, process: BoxProcess, source: str, out: Verdict, hacks: list[naming.Hack]) -> None:
        """Run the cases, then look at what it computes with; raise at the first red."""
        running = None
        for place, case in enumerate(self.cases):
            with _naming_the_rest(out, self.cases[place + 1 :]):
                running = self._case(process, case, out)
        assert running is not None
        hacks += self._computes(process, source, running, out)
        hacks += _inspected(process)
        if self.wish.beyond and not hacks:
            self._beyond(process, out)

    def prepare(self, process: BoxProcess, case: Case) -> None:
        """Build the candidate for a case, and tell it the form of the call."""
        if case.build is not None:
            words = {**case.build, "device": self.server.device}
            how, _ = process.call(f"{_SIDE}:build", case.state, words)
            if how in ("seed only", "weights of its own") and case.state:
                raise _UncopiedError(str(how))
        places = [list(case.values).index(name) for name in case.operator.in_place]
        several = len(case.operator.outputs) - len(places)
        form = {"call": case.call, "in_place": places, "seed": case.seed + 2, "outputs": several}
        form |= {"grad": bool(case.operator.differentiable), "copies": case.copies}
        process.call(f"{_SIDE}:form", {}, form)

    def _case(self, process: BoxProcess, case: Case, out: Verdict) -> Judged:
        """Make the checks of one case."""
        try:
            self.prepare(process, case)
        except _UncopiedError:
            out.undecided.append("its weights have other shapes than the reference's, and cannot be given to it")
        running = Judged(case, process, self.numbers, self.server.device)
        names = REQUIRED if case.whole else ("golden", "misrounded")
        with _red(running, case):
            for name in names:
                _check(running, name, out)
        if case.whole and case.operator.differentiable:
            backward = Judged(case, process, self.numbers, self.server.device, "backward")
            with _red(backward, case):
                for name in ("golden", "misrounded", "repeats", "gradients"):
                    _check(backward, name, out)
        shapes = [list(one.shape) for one in case.values.values()]
        out.cases.append({"name": case.name, "shapes": shapes, "own_sizes": not case.sizes, **running.figures()})
        return running

    def _computes(self, process: BoxProcess, source: str, running: Judged, out: Verdict) -> list[naming.Hack]:
        """Look at PyTorch's operators in a call, and at what a call gives without its Triton kernels."""
        told, _ = process.call(f"{_SIDE}:observed", running.given, {"device": self.server.device})
        found: list[naming.Hack] = []
        if isinstance(told, dict):
            out.operators = {
                str(name)[:60]: float(share) for name, share in told.items() if isinstance(share, (int, float))
            }
        if out.operators and self.wish.own_kernels:
            found.append(naming.Hack(naming.NOT_ITSELF, f"PyTorch computes: {', '.join(out.operators)}"))
        if reading.has_triton(source):
            count, without = process.call(f"{_SIDE}:launched", running.given, {"device": self.server.device})
            results = [one for name, one in running.out.items() if name not in running.op.in_place]
            same = len(results) == len(without) and all(
                a.shape == b.shape and a.tobytes() == b.tobytes()
                for a, b in zip(results, without.values(), strict=True)
            )
            if count == 0:
                found.append(naming.Hack(naming.NOT_ITSELF, "it has a Triton kernel and launches none"))
            elif same and results:
                found.append(
                    naming.Hack(
                        naming.NOT_ITSELF, f"its {count} launches of Triton kernels change nothing of the result"
                    )
                )
        return found

    def _beyond(self, process: BoxProcess, out: Verdict) -> None:
        """Try what the task does not ask; a fault there is said, and is red with ``--strict``."""
        case = self.cases[0]
        interpreted = self.server.device == "cpu" and "triton" in " ".join(out.advice)
        for name in BEYOND:
            if interpreted and name in _SLOW_INTERPRETED:
                out.not_tried.append(f"{name}: too slow in Triton's interpreter")
                continue
            try:
                self.prepare(process, case)
                running = Judged(case, process, self.numbers, self.server.device)
                running.out = running.run(running.given)
                _check(running, name, out)
            except (WrongResultError, MisbehavedError) as error:
                out.beyond.append(error.sentence)
            except EndedError as error:
                out.beyond.append(f"{name}: {error.text}")
                break
            except (KernelProcessError, PlainCodeError, ValueError) as error:
                out.beyond.append(f"{name}: {str(error).splitlines()[-1][:160]}")
        if out.beyond and self.wish.strict:
            raise _RedError(out.beyond[0], [])

    def _decide(self, out: Verdict, hacks: list[naming.Hack]) -> None:
        """Give the verdict its word and its first line."""
        if hacks and out.verdict != UNDECIDED:
            worst = naming.gravest(hacks)
            out.verdict, out.kind, out.reason = HACK, worst.kind, worst.evidence
            out.evidence = [*dict.fromkeys(f"{one.kind}: {one.evidence}" for one in hacks), *out.evidence]
            return
        if out.verdict == WRONG and out.undecided:
            out.verdict, out.evidence = UNDECIDED, [*out.evidence, out.reason]
            out.reason = out.undecided[0]
        if out.verdict != RIGHT:
            return
        if free := self.free():
            out.verdict, out.reason = UNDECIDED, f"{' and '.join(free)} would pass too: these cases see nothing"
        elif not any(case["own_sizes"] for case in out.cases):
            out.undecided.append("the task's own sizes, which ran nowhere")

    def files(self, verdict: Verdict, source: str) -> dict[str, str]:
        """Return the files of a program that shows a wrong result without this project."""
        named = verdict.counterexample.get("case")
        found = next((case for case in self.cases if case.name == named), None)
        return self.task.program(found, source) if found is not None and "expected" in verdict.counterexample else {}

    def free(self) -> list[str]:
        """Return the answers without work that pass all cases."""
        if self._free is None:
            passing: set[str] | None = None
            for case in self.cases:
                running = Judged(case, _Nobody(), self.numbers, "cpu")  # type: ignore[arg-type]
                here = set(passing_constants(running))
                passing = here if passing is None else passing & here
            self._free = sorted(passing or ())
        return self._free


class _Nobody:
    """In place of a process where nothing is called."""


class _UncopiedError(Exception):
    """The reference's weights cannot be given to the candidate."""


class _RedError(Exception):
    """A candidate is red."""

    def __init__(self, reason: str, hacks: list[naming.Hack], counterexample: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.reason, self.hacks, self.counterexample = reason, hacks, dict(counterexample or {})


@contextmanager
def _naming_the_rest(out: Verdict, rest: list[Case]) -> Iterator[None]:
    """Say what was not tried where a case is red."""
    try:
        yield
    except _RedError as red:
        out.counterexample = red.counterexample
        _not_tried(out, rest)
        raise
    except Exception:
        _not_tried(out, rest)
        raise


def _not_tried(out: Verdict, rest: list[Case]) -> None:
    if rest:
        out.not_tried.append(f"{len(rest)} cases after the first red: {', '.join(one.name for one in rest)}")


@contextmanager
def _red(running: Judged, case: Case) -> Iterator[None]:
    """Turn a finding of the kit into the end of the cascade."""
    try:
        yield
    except (MisbehavedError, AssertionError) as error:
        code = getattr(error, "code", "")
        if code == "kit-narrow-golden":
            raise PlainCodeError(
                "it computes in fp32 or less where its inputs are float64, so nothing exact is known"
            ) from None
        sentence = f"{case.name}: {getattr(error, 'sentence', str(error))}"
        hacks = naming.of_code(code, sentence)
        shown = running.counterexample()
        values, numbers, out = running.last
        if numbers is not None or out:
            golden = (numbers or running.numbers(values)).golden if not running.asked else {}
            hacks += naming.of_results(out, values.values(), golden, running.earlier[:-1])
            if out and not running.asked:
                hacks += running.looked_at_again(values, out)
        raise _RedError(sentence, hacks, shown) from None
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        if not str(error.__traceback__ and _last_file(error)).endswith(("running.py", "layouts.py")):
            raise
        raise _RedError(
            f"{case.name}: its process sent what is no answer",
            [naming.Hack(naming.ATTACKS, "forges an answer of its process")],
        ) from None


def _last_file(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename if trace is not None else ""


def _check(running: Judged, name: str, out: Verdict) -> None:
    """Make one check of the kit; where chance determines the bits, hold them to their budget and say it."""
    check: Callable[[Any], None] = ORDER[name]
    if name != "golden" and (does_not_apply(running, name) or why_not(running, name)):
        return
    try:
        check(running)
    except WrongResultError as error:
        if error.code != "kit-other-bits" or not running.op.same_bits:
            raise
        running.op = replace(running.op, same_bits=False)
        out.notes.append("a second run gives other bits")
        check(running)
    except PlainCodeError as error:
        if name == "golden":
            raise
        out.not_tried.append(f"{name}: the reference fails there ({str(error)[:80]})")


def _inspected(process: BoxProcess) -> list[naming.Hack]:
    """Return what the candidate's process noted of it."""
    try:
        told, _ = process.call(f"{_SIDE}:inspect", {}, {})
    except KernelProcessError as error:
        return naming.of_end(error.stage, error.text) if error.stage == "forged" else []
    return naming.of_notes(told)
