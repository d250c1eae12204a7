"""Make every check that follows from the description of an operator, and say which were not asked."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import pytest

from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.inputs import digest
from kernel_matrix.job.kernel_process import KernelProcessError
from kernel_matrix.kit import draws, plain
from kernel_matrix.kit.checks import growth, holds, memory, numbers, rows, times
from kernel_matrix.kit.checks.applying import ASKED, WITHIN_EVERY_RUN, does_not_apply, why_not
from kernel_matrix.kit.checks.names import CHECKS
from kernel_matrix.kit.description import Operator
from kernel_matrix.kit.misbehaviour import SPOILS_MEMORY, MisbehavedError, UnconfirmedError, WrongResultError
from kernel_matrix.kit.running import Running, facts_of

MADE = "checks"  # the fact of a case: "12 of 14 checks", and the others with their reasons

# In the order in which they are made: what chance determines is seen before what depends on it.
ORDER: Mapping[str, Callable[[Running], None]] = {
    "golden": numbers.golden,
    "misrounded": numbers.misrounded,
    "growth": growth.growth,
    "repeats": numbers.repeats,
    "unwritten": memory.unwritten,
    "follows": memory.follows,
    "kept": memory.kept,
    "fresh": numbers.fresh,
    "magnitudes": rows.magnitudes,
    "rows": rows.rows,
    "layouts": rows.layouts,
    "holds": holds.holds,
    "gradients": memory.gradients,
    "memory": memory.memory,  # before many rows: the C library keeps what they took
    "sizes": rows.sizes,
    "modes": memory.modes,
    **{name: functools.partial(memory.in_mode, mode=name) for name in ASKED},
    "threads": numbers.threads,
    "times": times.times,
}
_OF_ALL_VARIANTS = ("golden", "growth", "memory", "threads", "times")  # the others are made for each variant
_ONCE = ("sizes", "threads")  # in the cases that the description names, or the first that gets so far
_made: set[tuple[str, ...]] = set()  # by this process: the check, operator, direction, dtype and kernel


def conform(case: RunningCase, op: Operator, values: draws.Arrays | None = None) -> None:
    """Run all checks of a case that are not only compiled; ``values`` are its inputs, by default drawn ones.

    Raises:
        AssertionError: a number is wrong.
        MisbehavedError: the kernel did something else than to compute its outputs.
        UnconfirmedError: nobody has confirmed the description.
    """
    if op.proposed:
        raise UnconfirmedError(op.name, op.proposed)
    if case.action == "compile":
        _compile(case, op)
        return
    running = Running(case, op, values)
    case.facts["inputs.sha256"] = digest(running.given.values())
    try:
        made = _made_of(running)
    except (MisbehavedError, WrongResultError) as error:
        if error.code in SPOILS_MEMORY:
            case.end_kernel_process()
        raise
    record_code(case, op)
    _record(running, made)


def _made_of(running: Running) -> list[str]:
    """Make the checks of a case in their order, and return those that were asked."""
    case, op = running.case, running.op
    of_kernel = (case.op, case.direction, str(case.axes.get("dtype")), running.kernel(running.sizes)["function"])
    made: list[str] = []
    for name in ORDER:
        if (name != "golden" and does_not_apply(running, name)) or (name in _ONCE and op.once and not running.has_once):
            continue
        if reason := why_not(running, name):
            running.not_asked[name] = reason
            continue
        before = name in _ONCE and not op.once and (name, *of_kernel) in _made
        if not before and not _make(running, name):
            continue
        made.append(name)
        _made.add((name, *of_kernel))
        if name in ("golden", "growth"):
            running.memory_before = memory.held(running)
    return made


def _compile(case: RunningCase, op: Operator) -> None:
    """Compile for the case's target."""
    if not op.ahead:
        pytest.skip("the description names no function that compiles for a target which is not here (ahead=)")
    if op.kernels:
        case.compile(op.ahead, case=facts_of(case, op, case.axes))
    else:
        case.compile(op.ahead, target=case.target)


def _make(running: Running, name: str) -> bool:
    """Make a check; return False, and note why, if plain code cannot say what is right there."""
    try:
        for variant in [""] if name in _OF_ALL_VARIANTS else running.variants:
            running.variant = variant
            ORDER[name](running)
    except plain.PlainCodeError as error:
        if name == "golden":
            raise
        running.not_asked[name] = f"plain code fails there: {str(error).splitlines()[0][:80]}"
        return False
    finally:
        running.variant = ""
    return True


def record_code(case: RunningCase, op: Operator) -> None:
    """Record the code that ran, where the package has it; an interpreter runs none.

    Numbers that are right stay so where nobody can tell what the code needs, so an error is only a fact of the case.
    """
    if not op.code or case.interpreted:
        return
    try:
        case.compile(op.code, case=facts_of(case, op, case.axes))
    except KernelProcessError as error:
        if error.stage == "crash":
            raise
        case.facts["code"] = f"not known: {error.text.splitlines()[-1]}"


def _record(running: Running, made: list[str]) -> None:
    """Write how many checks were made, and which were not."""
    for name in WITHIN_EVERY_RUN:
        if does_not_apply(running, name):
            continue
        if reason := why_not(running, name):
            running.not_asked[name] = reason
        else:
            made.append(name)
    asked = [name for name in made if name not in running.not_asked]
    text = f"{len(asked)} of {len(asked) + len(running.not_asked)} checks"
    if running.not_asked:
        reasons: dict[str, list[str]] = {}  # the checks of each
        for name in (name for name in CHECKS if name in running.not_asked):
            reasons.setdefault(running.not_asked[name], []).append(name)
        text += "; not asked: " + "; ".join(f"{', '.join(names)} ({why})" for why, names in reasons.items())
    running.case.facts[MADE] = text
