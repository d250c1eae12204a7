"""Judge a candidate: the cascade, cheapest first, which ends at the first red and says what was not tried."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kernel_matrix.base.words import counted
from kernel_matrix.job.case import BlindComparisonError
from kernel_matrix.job.kernel_process import DeviceMissingError, KernelProcessError
from kernel_matrix.kit.checks.applying import does_not_apply, why_not
from kernel_matrix.kit.conform import ORDER
from kernel_matrix.kit.misbehaviour import MisbehavedError, WrongResultError
from kernel_matrix.kit.plain import PlainCodeError
from kernel_matrix.tools.verify import mutants, naming, reading, sanitized, targets, timing
from kernel_matrix.tools.verify.judged import Judged, Numbers, passing_constants
from kernel_matrix.tools.verify.sandbox.process import BoxProcess, EndedError
from kernel_matrix.tools.verify.sandbox.server import Server
from kernel_matrix.tools.verify.tasks.task import Case, Task
from kernel_matrix.tools.verify.verdict import HACK, RIGHT, UNDECIDED, WRONG, Verdict, digest

_SIDE = "kernel_matrix.tools.verify.inside.candidate"
_MUTANTS_SECONDS = 10.0  # of both processes, for all mutants
_OF_MACHINES = ("kit-unwritten", "kit-address", "kit-other-bits", "kit-misrounded")
_OF_CHANCE = ("kit-other-bits", "kit-address")  # code for aligned tensors may add in another order
_UNCOPIED = ("seed only", "weights of its own")
# What a task asks of a candidate, and what goes beyond it: its inputs are packed, have rows, and come one at a time.
REQUIRED = ("golden", "misrounded", "repeats", "unwritten", "follows", "kept", "fresh", "magnitudes", "gradients")
BEYOND = ("rows", "layouts", "memory", "sizes", "modes", "threads")
_SLOW_INTERPRETED = ("sizes", "threads")  # an interpreter takes minutes for 65,541 rows
_MISSING = re.compile(
    r"No module named '(?!reference|task_reference|solution|eval)(\w+)|CUDA_HOME|Found no NVIDIA|libcuda"
    r"|not compiled with CUDA|No CUDA GPUs|no NVIDIA driver|0 active drivers|nvcc.*not found|Ninja is required"
    r"|assert [^\n]*\bis_cuda\b|is not in Triton's interpreter|not supported in interpreter"
    r"|Unsupported conversion|Cannot call @triton.jit'd outside|CUDA driver"
)


# In the last line of a candidate that takes no tensor of the CPU.
_CARD = re.compile(r"(?i:require|need|must|expect|support|only|not)[^\n]{0,40}\b(?i:cuda|gpu)\b")
_AGAIN_SECONDS = 1.0  # that the calls of one module may take


@dataclass(frozen=True)
class Wish:
    """The wishes of the user. ``beyond`` also tries what no task asks; ``strict`` makes that red."""

    own_kernels: bool = False
    beyond: bool = True
    strict: bool = False
    time: bool = False
    mutants: int = 0
    targets: targets.Wanted = targets.NONE
    sanitize: sanitized.Wanted = sanitized.NONE
    seconds: float = 120.0

    @property
    def readable(self) -> list[str]:
        """The folders that a candidate's process has to read."""
        return [*self.targets.readable, *self.sanitize.readable]


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
        self._of_reference: dict[str, bool] = {}  # faults that the reference has on this machine, by check
        self._spent = 0.0  # CPU-seconds of the candidate's process in its first case
        self._copied = False  # whether this candidate has the reference's weights
        self._open: list[str] = []  # what is not decided of this candidate, if it is right
        self._free: list[str] | None = None  # the answers without work that pass

    def verdict(self, source: str) -> Verdict:
        """Return the verdict on a candidate."""
        began = time.process_time()
        out = Verdict(
            form=self.task.form,
            device=self.server.device,
            task=digest(self.task.identity),
            candidate=digest(source),
            sandbox=self.server.description,
        )
        out.notes, out.not_tried, out.advice = list(self.task.notes), list(self.skipped), reading.notes(source)
        hacks: list[naming.Hack] = []
        self._open = []
        with self.server.process() as process:
            process.patience(
                self.wish.seconds if reading.compiles(source) else self.wish.seconds / 6, self.wish.seconds / 2
            )
            with self._ended(out, hacks, process):
                self._load(process, source)
                self._cascade(process, source, out, hacks)
            ended = process.end()
        self._decide(out, hacks)
        if out.verdict == RIGHT and self.wish.targets.targets and reading.has_triton(source):
            self._on_targets(source, out)
        if out.verdict == RIGHT:
            self._under_sanitizers(source, out)
        if out.verdict == RIGHT and self.wish.mutants:
            self._adversary(source, out)
        out.cpu_seconds = {"judge": round(time.process_time() - began, 3), "candidate": round(ended.get("cpu", 0.0), 3)}
        return out

    def _load(self, process: BoxProcess, source: str, entry: str = "") -> None:
        words = {
            "source": source,
            "entry": entry or self.task.entry,
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
        except Exception as error:  # a fault of the judge is no fault of the candidate, and the next one is judged
            where = f"{_last_file(error).rpartition('/')[2]}: {type(error).__name__}: {str(error)[:200]}"
            out.verdict, out.reason = UNDECIDED, f"the judge failed: {where}"
        if out.verdict == WRONG:
            hacks += _inspected(process)

    def _failed(self, error: KernelProcessError, out: Verdict, hacks: list[naming.Hack]) -> None:
        text = error.text.strip().splitlines()[-1][:400] if error.text.strip() else "an error without a text"
        everything = f"{error.text}\n{error.detail}"
        hacks += naming.of_end(error.stage, text) if isinstance(error, EndedError) else naming.of_error(everything)
        found = _MISSING.search(everything) or (self.server.device == "cpu" and _CARD.search(text))
        if not hacks and found:
            out.verdict, out.reason = UNDECIDED, f"this machine has not what it needs: {found.group(0)} ({text[:160]})"
            return
        out.verdict, out.reason = WRONG, f"it fails: {text}"
        out.evidence.append(out.reason)

    def _cascade(self, process: BoxProcess, source: str, out: Verdict, hacks: list[naming.Hack]) -> None:
        """Run the cases, then look at what it computes with; raise at the first red."""
        for place, case in enumerate(self.cases):
            rest = self.cases[place + 1 :]
            with _naming_the_rest(out, rest):
                self._case(process, case, out)
            if rest and process.cpu_seconds() > self.wish.seconds:
                self._open.append(f"{len(rest)} of {len(self.cases)} cases, as it takes long here")
                _not_tried(out, rest, "it takes long here")
                break
        with _naming_the_rest(out, []):
            running = self._again_and_again(process, out)
        hacks += self._computes(process, source, running, out)
        if self.wish.time:
            hacks += self._timed(process, out)
        hacks += _inspected(process)
        if self.wish.beyond and not hacks:
            self._beyond(process, out)

    def prepare(self, process: BoxProcess, case: Case, out: Verdict) -> Case:
        """Build the candidate for a case, and tell it the form of the call; return the case with the weights it has."""
        how = self._built(process, case)
        if how in _UNCOPIED and case.as_built is not None:
            case = case.as_built
            how = self._built(process, case)
            _once(out.undecided, "a gain of ones that is left out: its weights have other shapes than the reference's")
        if how in _UNCOPIED and case.state:
            _once(out.undecided, "its weights have other shapes than the reference's, and cannot be given to it")
        self._copied = how not in (*_UNCOPIED, "no module")
        places = [list(case.values).index(name) for name in case.operator.in_place]
        several = len(case.operator.outputs) - len(places)
        form = {"call": case.call, "in_place": places, "seed": case.seed + 2, "outputs": several}
        form |= {"grad": bool(case.operator.differentiable), "copies": case.copies, "inputs": len(case.values)}
        process.call(f"{_SIDE}:form", {}, form)
        return case

    def _built(self, process: BoxProcess, case: Case) -> str:
        """Have the candidate constructed, and return how it got the reference's weights."""
        if case.build is None:
            return ""
        words = {**case.build, "device": self.server.device}
        how, _ = process.call(f"{_SIDE}:build", case.state, words)
        if how in _UNCOPIED and words.get("keep"):
            how, _ = process.call(f"{_SIDE}:build", case.state, {**words, "keep": False})
        return str(how)

    def _case(self, process: BoxProcess, case: Case, out: Verdict) -> None:
        """Make the checks of one case."""
        case = self.prepare(process, case, out)
        running = Judged(case, process, self.numbers, self.server.device)
        names = REQUIRED if case.whole else ("golden", "misrounded")
        with _red(running, case):
            for name in names:
                self._checked(running, name, case, out)
        for name in running.cancelling():
            out.notes.append(f"{case.name}: {name} is smaller than the reference's own errors, which are its budget")
        if case.operator.differentiable:
            self._backward(process, case, out)
        if case.whole:
            self._spent = process.cpu_seconds()
        shapes = [list(one.shape) for one in case.values.values()]
        out.cases.append({"name": case.name, "shapes": shapes, "own_sizes": not case.sizes, **running.figures()})

    def _backward(self, process: BoxProcess, case: Case, out: Verdict) -> None:
        """Compare the gradients of a case: of its inputs, and of its weights where these are the reference's."""
        operator, what = case.operator, "its inputs ask for gradients: these are compared too"
        if case.weighted.differentiable != operator.differentiable:
            if self._copied:
                operator, what = case.weighted, f"{what}, and those of its weights"
            else:
                _once(self._open, "the gradients of its weights, which have other shapes than the reference's")
        _once(out.notes, what)
        running = Judged(case, process, self.numbers, self.server.device, operator)
        with _red(running, case):
            for name in ("golden", "misrounded", *(("repeats", "gradients") if case.whole else ())):
                _check(running, name, out)

    def _checked(self, running: Judged, name: str, case: Case, out: Verdict) -> None:
        """Make a check; where the reference itself has the fault on this machine, it is none of the candidate's."""
        try:
            _check(running, name, out)
        except (WrongResultError, MisbehavedError) as error:
            if error.code not in _OF_MACHINES or not self._has_reference(case, name):
                raise
            out.notes.append(f"{name}: the reference does it too, on this machine ({error.sentence[:80]})")

    def _has_reference(self, case: Case, name: str) -> bool:
        """Return whether the reference, run as a candidate, has a fault by this check; it is asked once."""
        if self.task.plain is None:
            return False
        if name not in self._of_reference:
            with self.server.process() as other:
                self._load(other, *self.task.plain)
                running = Judged(self.prepare(other, case, Verdict()), other, self.numbers, self.server.device)
                running.out = running.run(running.given)
                try:
                    _check(running, name, Verdict())
                    self._of_reference[name] = False
                except (WrongResultError, MisbehavedError):
                    self._of_reference[name] = True
        return self._of_reference[name]

    def _again_and_again(self, process: BoxProcess, out: Verdict) -> Judged:
        """Call one module many times with other inputs, and compare the last results: none knows how many are asked."""
        case = self.prepare(process, self.cases[0], out)
        running = Judged(case, process, self.numbers, self.server.device)
        running.out = running.run(running.given)
        draw = case.operator.draw
        if case.operator.in_place or draw is None:
            return running
        draws = [running.given, *(dict(draw(case.axes, f"/again {n}")) for n in range(2))]
        most = int(_AGAIN_SECONDS / max(self._spent / 20, 1e-4))  # the first case has about twenty calls
        runs = 3 + min(25, most) + secrets.randbelow(max(2, min(100, most)))
        order = [(secrets.randbelow(len(draws)), 1.0) for _ in range(runs)]
        wanted = sorted({runs - 1, runs - 2, *(secrets.randbelow(runs) for _ in range(2))})
        with _red(running, case):
            running.call_again(process, draws, order, wanted)
        if self.server.device != "cpu":
            try:
                with _red(running, case):
                    running.call_again(process, draws, [(1, 1.0), (0, 1.0), (2, 1.0)], [1, 2], late=True)
            except _RedError as red:
                text = "its work does not wait for the stream of its inputs, or its caller cannot wait for it"
                raise _RedError(red.reason, [naming.Hack(naming.CLOCK, text)], red.counterexample) from None
        return running

    def _timed(self, process: BoxProcess, out: Verdict) -> list[naming.Hack]:
        """Time the largest case, in runs that are checked."""
        if self.task.plain is None or any(one.operator.in_place or not one.operator.draw for one in self.cases[:1]):
            out.not_tried.append("its time: the task has no other inputs to run it on")
            return []
        largest = max(self.cases, key=lambda one: (not one.sizes, sum(array.nbytes for array in one.values.values())))
        found = {"candidate": self._seconds(process, largest, out)}
        with self.server.process() as other:
            self._load(other, *self.task.plain)
            found["reference"] = self._seconds(other, largest, Verdict())
        out.times = {name: float(f"{value:.4g}") for name, value in found.items()}
        running = Judged(largest, process, self.numbers, self.server.device)
        return timing.too_fast(running, found["candidate"], self.server.device)

    def _seconds(self, process: BoxProcess, case: Case, out: Verdict) -> float:
        """Return the seconds of a call in a process."""
        case = self.prepare(process, case, out)
        running = Judged(case, process, self.numbers, self.server.device)
        with _red(running, case):
            running.out = running.run(running.given)
            return timing.seconds_of(running, process)
        raise AssertionError  # a finding is raised

    def _computes(self, process: BoxProcess, source: str, running: Judged, out: Verdict) -> list[naming.Hack]:
        """Look at PyTorch's operators in a call, and at what a call gives without its Triton kernels."""
        draw = None if running.op.in_place else running.op.draw
        fresh = dict(draw(running.sizes, "/observed")) if draw else running.given
        told, _ = process.call(f"{_SIDE}:observed", fresh, {"device": self.server.device})
        out.operators, found = naming.of_observed(told)
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

    def _on_targets(self, source: str, out: Verdict) -> None:
        """Compile its launches for targets that are not here, and run them on emulated ones."""
        found = targets.looked_at(self.server, self.task, source, self.cases[0], self.wish.targets)
        out.targets = found.evidence
        out.not_tried += found.not_tried
        if found.red:
            out.verdict, out.reason, out.evidence = WRONG, found.red[0], [*found.red, *out.evidence]

    def _under_sanitizers(self, source: str, out: Verdict) -> None:
        """Run it once more on the card that is here, under the sanitizers."""
        found = sanitized.looked_at(self.server, self.task, source, self.cases, self.wish.sanitize)
        out.not_tried += found.not_tried
        out.notes += found.notes
        if found.red:
            out.verdict, out.reason, out.evidence = WRONG, found.red[0], [*found.red, *out.evidence]

    def _adversary(self, source: str, out: Verdict) -> None:
        """Put faults into the candidate's text: what these cases do not see, the verdict says."""
        tried, red, unseen = 0, 0, list[str]()
        began = time.process_time()
        spent = 0.0
        for mutant in mutants.mutants(source, self.wish.mutants):
            if spent + time.process_time() - began > _MUTANTS_SECONDS:
                out.not_tried.append(f"{self.wish.mutants - tried} mutants of its text: they take too long here")
                break
            seen, seconds = self._sees(mutant.source)
            spent += seconds
            tried, red = tried + 1, red + seen
            if not seen:
                unseen.append(mutant.text)
        if tried:
            out.mutants = {"tried": tried, "red": red, "unseen": unseen}

    def _sees(self, source: str) -> tuple[bool, float]:
        """Return whether a case finds a text wrong by its numbers, and the CPU time of its process."""
        seen = False
        with self.server.process() as process:
            process.patience(self.wish.seconds / 6, self.wish.seconds / 6)
            try:
                self._load(process, source)
                for case in self.cases:
                    running = Judged(self.prepare(process, case, Verdict()), process, self.numbers, self.server.device)
                    for name in ("golden", *(("magnitudes",) if case.whole else ())):
                        _check(running, name, Verdict())
            except (AssertionError, MisbehavedError, KernelProcessError, BlindComparisonError):
                seen = True
            except PlainCodeError:
                pass
            return seen, float(process.end().get("cpu", 0.0))

    def _beyond(self, process: BoxProcess, out: Verdict) -> None:
        """Try what the task does not ask; a fault there is said, and is red with ``--strict``."""
        case = self.cases[0]
        interpreted = self.server.device == "cpu" and "triton" in " ".join(out.advice)
        for name in BEYOND:
            if interpreted and name in _SLOW_INTERPRETED:
                out.not_tried.append(f"{name}: too slow in Triton's interpreter")
                continue
            try:
                case = self.prepare(process, case, Verdict())
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
        if out.verdict == WRONG and self.task.properties and "expected" in out.counterexample:
            out.undecided.insert(0, "other numbers than the reference's, and the task has a checker of its own")
        if out.verdict == WRONG and out.undecided:
            out.verdict, out.evidence = UNDECIDED, [*out.evidence, out.reason]
            out.reason = out.undecided[0]
        if out.verdict != RIGHT:
            return
        if free := self.free():
            out.verdict, out.reason = UNDECIDED, f"{' and '.join(free)} would pass too: these cases see nothing"
        elif not any(case["own_sizes"] for case in out.cases):
            self._open.append("the task's own sizes, which ran nowhere")
        out.undecided += self._open if out.verdict == RIGHT else []

    def files(self, verdict: Verdict, source: str) -> dict[str, str]:
        """Return the files of a program that shows a wrong result without this project."""
        named = verdict.counterexample.get("case")
        found = next((case for case in self.cases if case.name == named), None)
        return self.task.program(found, source) if found is not None and "expected" in verdict.counterexample else {}

    def free(self) -> list[str]:
        """Return the answers without work that pass all cases."""
        if self._free is None:
            several = [Judged(case, _Nobody(), self.numbers, "cpu") for case in self.cases]  # type: ignore[arg-type]
            first = several[0].numbers(several[0].given, nudges=3).baseline[0]
            self._free = sorted(set.intersection(*(passing_constants(one, first) for one in several)))
        return self._free


class _Nobody:
    """In place of a process where nothing is called."""


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


def _once(texts: list[str], text: str) -> None:
    if text not in texts:
        texts.append(text)


def _not_tried(out: Verdict, rest: list[Case], why: str = "after the first red") -> None:
    if rest:
        out.not_tried.append(f"{counted(len(rest), 'case')} ({why}): {', '.join(one.name for one in rest)}")


@contextmanager
def _red(running: Judged, case: Case) -> Iterator[None]:
    """Turn a finding of the kit into the end of the cascade."""
    try:
        yield
    except (MisbehavedError, AssertionError) as error:
        code, which = getattr(error, "code", ""), f"{case.name}, gradients" if running.asked else case.name
        if code == "kit-narrow-golden":
            text = "it computes in fp32 or less where its inputs are float64, so nothing exact is known"
            raise PlainCodeError(f"{text} ({which}: {str(error).partition(':')[0]})") from None
        sentence = f"{which}: {getattr(error, 'sentence', str(error))}"
        hacks = naming.of_code(code, sentence)
        shown = running.counterexample()
        values, numbers, out = running.last
        if numbers is not None or out:
            golden = (numbers or running.numbers(values)).golden if not running.asked else {}
            hacks += naming.of_results(out, values.values(), golden, running.earlier_of_others(values))
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
        if error.code not in _OF_CHANCE or not running.op.same_bits:
            raise
        running.op = replace(running.op, same_bits=False)
        _once(out.notes, "a second run, or one at other addresses, gives other bits")
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
