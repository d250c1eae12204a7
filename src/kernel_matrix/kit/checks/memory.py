"""Reads and keeps of a kernel that no input explains: unwritten memory, answers and results of earlier calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from kernel_matrix.kit import draws
from kernel_matrix.kit.layouts import same_bytes
from kernel_matrix.kit.misbehaviour import MisbehavedError, WrongResultError
from kernel_matrix.kit.running import Running

_SPARE = 128 << 20  # bytes by which the kernel's process may grow while a case runs


def unwritten(running: Running) -> None:
    """Poison what nobody has written with three kinds of numbers; no result and no operation may depend on it.

    The CPU says whether an operation had a subnormal operand. If that is so only where the poison is subnormal, the
    kernel has computed with it, even if no result shows it.
    """
    flags, kept = {}, []
    if running.repeats_less:  # its repeat has been poisoned
        return
    for kind in ("nan", "usual", "small"):
        out = running.run(running.given, poison=kind)
        flags[kind] = running.facts["subnormal"]
        kept.append(int(running.facts["kept"]))
        if running.op.same_bits and _differing(out, running.out):
            _hold_chance(running, out, kind)
        running.same("kit-unwritten", out, "other results where memory that nobody has written holds other values")
    if flags["small"] and flags["usual"] is False:
        running.run(running.given, poison="usual")
        if running.facts["subnormal"] is False:
            raise MisbehavedError("kit-unwritten", "the kernel computes with memory that nobody has written")
    running.left = kept[2] - kept[0]


def _differing(one: draws.Arrays, other: draws.Arrays) -> list[str]:
    """Return the names of the results that have other bits."""
    return [name for name, values in one.items() if not same_bytes(values, other[name])]


def _hold_chance(running: Running, out: draws.Arrays, kind: str) -> None:
    """Say what else gives other bits than unwritten memory: chance, or the places of what the kernel allocates.

    A kernel that reads what nobody has written gives the same for the same numbers there, and others for others.

    Raises:
        WrongResultError: another run has other bits, or the results are the same whatever number fills the memory.
    """
    given, text = running.given, "another run on the same inputs gives other results"
    running.same("kit-other-bits", running.run(given), text)
    if names := _differing(out, running.run(given, poison=kind)):
        raise WrongResultError("kit-other-bits", f"{text}: {', '.join(names)}")
    other = running.run(given, poison="usual" if kind == "nan" else "nan")
    if not _differing(out, other):
        names = _differing(out, running.out)
        text = f"other results where the memory that it allocates lies elsewhere: {', '.join(names)}"
        raise WrongResultError("kit-address", text)


def memory(running: Running) -> None:
    """Hold what runs leave behind, and how much the kernel's process has grown.

    What is kept once (compiled code, a workspace, the last results) is no leak, nor what is freed now and then. So 24
    runs on other values come first. The least that is held in the next twelve, and in twelve more, are then compared.
    """
    before, now = running.memory_before, held(running)
    grown = 0 if before is None or now is None else now - before
    spare = _SPARE + 16 * sum(one.nbytes for one in (*running.given.values(), *running.out.values()))
    if running.left <= 0 and grown <= spare:
        return
    _, first, then = (_least(running, numbers) for numbers in (range(24), range(24, 36), range(36, 48)))
    kept, lost = (after - earlier for earlier, after in zip(first, then, strict=True))
    if running.left > 0 and kept > 0:
        raise MisbehavedError("kit-keeps-memory", f"twelve runs of the kernel keep {kept} bytes more")
    if grown > spare and 64 * lost > grown:
        text = f"the kernel's process holds {grown >> 20} MiB more after a few runs"
        raise MisbehavedError("kit-keeps-memory", text)


def _least(running: Running, numbers: Iterable[int]) -> tuple[int, int]:
    """Run on other values, each by its number; return the least bytes of results that are alive, and of the process.

    The runs have poison: only then it is counted which results are alive.
    """
    kept = []
    for number in numbers:
        running.run(draws.drawn(running.case, running.op, running.sizes, f"/kept {number}"), poison="usual")
        kept.append((int(running.facts["kept"]), held(running, collect=True) or 0))
    results, process = zip(*kept, strict=True)
    return min(results), min(process)


def held(running: Running, *, collect: bool = False) -> int | None:
    """Return the bytes that the kernel's process holds without what is free in it; None where that is not known."""
    running.case.call("kernel_matrix.kit.kernel_side:settle", collect=collect)
    return running.case.kernel_memory()


def follows(running: Running) -> None:
    """Run on other values in the same memory: drawn anew, rows in the reverse order, and one element changed."""
    others = {"other values at the same addresses": draws.drawn(running.case, running.op, running.sizes, "/other")}
    if running.by_row:
        backwards = draws.of_rows(running.given, running.by_row, lambda one: one[::-1].copy())
        others["the same rows in the reverse order"] = backwards
    first, *rest = [name for name, one in running.given.items() if not draws.is_whole(one) and one.size] or [""]
    for what, names in ("one element changed", [first] if first else []), ("one element of each other input", rest):
        if names:
            others[what] = draws.saved_anew(running.op, _changed(running, names), running.sizes)
    for what, values in others.items():
        numbers = running.numbers(values)
        if numbers.finite:
            text = f"the results do not follow their inputs: {what}"
            running.inside("kit-keeps-answers", running.run(values), numbers, text)


def _changed(running: Running, names: Sequence[str]) -> draws.Arrays:
    """Return the inputs, where the last element of some is another one, of the other sign where that may be."""
    changed = dict(running.given)
    for name in names:
        one, kind = changed[name].copy(), running.op.inputs.get(name)
        value, spread = float(one.reshape(-1)[-1]), kind.spread(running.sizes) if kind else 1
        sign = -1 if kind and not kind.positive and not (running.given[name].astype(np.float64) < 0).any() else 1
        one.reshape(-1)[-1] = sign * (value * 2 + spread)
        changed[name] = one
    return changed


def kept(running: Running) -> None:
    """Look at the results of an earlier run, after others."""
    _, results = running.case.call("kernel_matrix.kit.kernel_side:kept")
    changed = [name for name, one in results.items() if name in running.out and not same_bytes(one, running.out[name])]
    if changed and running.op.same_bits:
        raise MisbehavedError("kit-shared-result", f"a result changes when the kernel runs again: {', '.join(changed)}")


def gradients(running: Running) -> None:
    """Ask for some of the gradients, or of the optional outputs, and run a backward twice on one forward."""
    for some in _parts(running):
        what = f" where {', '.join(some)} is asked for"
        rest = [name for name in running.out if name not in running.op.optional]
        out = running.run(running.given, only=[*some, *rest], what=what)
        running.same("kit-gradients", out, f"a result{what} is another one than among all", other_code=True)
    if not running.backward:
        return
    for some in _subsets(running.asked):
        what = f" where {', '.join(some)} is asked for"
        out = running.run(running.given, asked=some, what=what)
        running.same("kit-gradients", out, f"a gradient{what} is another one than among all", other_code=True)
    try:
        running.attempt("kit-gradients", running.given, "a second backward on one forward fails", times=2)
    except WrongResultError as error:
        if not (why := running.frame.why_once(str(error))):
            raise
        running.not_asked["gradients"] = f"a second backward: {why}"
        return
    for name, rounds in running.rounds.items():
        differs = any(not same_bytes(one, rounds[0]) for one in rounds[1:])
        if running.op.same_bits and differs:
            raise WrongResultError("kit-gradients", f"{name}: another gradient in a second backward on one forward")


def _parts(running: Running) -> list[list[str]]:
    """Return the outputs that are asked for: the first, all others, and in some cases each other one alone.

    So each two are together, one without the other, and both missing.
    """
    names = [name for name in running.op.optional if name in running.out]
    if len(names) < 2:
        return []
    alone = running.has_once and not running.repeats_less and len(names) > 2
    return [names[:1], names[1:], *([name] for name in names[1:] if alone)]


def _subsets(names: list[str]) -> list[list[str]]:
    """Return the subsets: of many names each alone, and all but each."""
    if len(names) <= 3:
        masks = range(1, 2 ** len(names) - 1)
        return [[name for bit, name in enumerate(names) if mask >> bit & 1] for mask in masks]
    return [[name] for name in names] + [[other for other in names if other != name] for name in names]


def modes(running: Running) -> None:
    """Call the forward where gradients are recorded, and where they cannot be."""
    for mode in running.frame.modes:
        in_mode(running, mode)


def in_mode(running: Running, mode: str) -> None:
    """Call the forward in one mode."""
    out = running.attempt(
        "kit-modes", running.given, f"the kernel fails in the mode '{mode}'", mode=mode, what=f" ({mode})"
    )
    running.same("kit-modes", out, f"other results in the mode '{mode}'", other_code=running.facts["compiles"])
