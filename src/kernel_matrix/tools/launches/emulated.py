"""Compare what an emulator of GPUs wrote with the float64 golden, as a test of a suite compares its outputs."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from kernel_matrix.base import installation
from kernel_matrix.base.errors import UserError
from kernel_matrix.base.words import counted
from kernel_matrix.job import defaults
from kernel_matrix.job.case import BlindComparisonError, OutOfBudgetError
from kernel_matrix.job.suite_compare import Comparer
from kernel_matrix.tools.launches.configurations import odd
from kernel_matrix.tools.launches.invocation import Invocation
from kernel_matrix.tools.launches.numbers import FLOATS, Beside, Change, Changes, at, changes_in, share, ulps
from kernel_matrix.tools.launches.recording import Compiled, Numbers, Recording
from kernel_matrix.tools.launches.simulators import Found

_EMULATORS = "gpu_emulators"
_DECODER = "tinygrad==0.14.0"


def emulator_for(call: Invocation, targets: Sequence[str], simulator: Found | None = None) -> Path:
    """Return the folder of the emulators, which the Python of a program can use.

    Of a program whose launches run in a simulator only the launchers are used, which need no more.

    Raises:
        UserError: the emulators, a compiler or the decoder of instructions is not there; it says how to install it.
    """
    found = find_spec(_EMULATORS)
    if found is None or found.origin is None:
        raise UserError(f"--emulate, --on: the emulators are not installed: {installation.installing('emulate')}")
    if targets and simulator is None and shutil.which("g++") is None:
        raise UserError("--emulate: no C++ compiler is on PATH to build the emulator with: sudo apt-get install g++")
    if simulator is None and any(target.startswith("gfx") for target in targets):
        _refuse_without_decoder(call)
    return Path(found.origin).parent


def _refuse_without_decoder(call: Invocation) -> None:
    name, _, version = _DECODER.partition("==")
    ask = f"import importlib.metadata as m; assert m.version({name!r}) == {version!r}"
    if subprocess.run([call.python, "-c", ask], capture_output=True, check=False).returncode:
        raise UserError(
            f"--emulate: the Python of the program lacks {_DECODER}, whose tables decode AMD's instructions: "
            + installation.into(call.python, _DECODER)
        )


def compared(recording: Recording, folder: Path) -> Recording:
    """Return the recording with the numbers of what ran; ``folder`` holds its files.

    Where an emulator ran for the target of the GPU that is here, its numbers are set beside those of the GPU.
    """
    folder = folder / "emulated"
    on_card = {(one.identity, one.target) for one in recording.compiled if one.card is not None}
    emulated = {
        (one.identity, one.target): one
        for one in recording.compiled
        if one.card is None and (one.identity, one.target) in on_card
    }
    wrong = odd(recording, folder)
    done = replace(
        recording,
        compiled=tuple(
            _beside(_compared(one, folder), emulated.get((one.identity, one.target)), folder)
            for one in recording.compiled
            if one.card is not None or (one.identity, one.target) not in emulated
        ),
    )
    return replace(done, compiled=tuple(_with(one, wrong.get(one.identity, "")) for one in done.compiled))


def _with(compiled: Compiled, fault: str) -> Compiled:
    """Return what ran with one more finding, if there is one."""
    ran = fault and not compiled.stage and compiled.without is not None
    return replace(compiled, findings=(*compiled.findings, fault)) if ran else compiled


def _beside(compiled: Compiled, emulated: Compiled | None, folder: Path) -> Compiled:
    """Return what ran on the GPU, with the numbers of an emulator beside it."""
    if emulated is None or compiled.stage:
        return compiled
    files = [folder / compiled.identity / f"{name}.npz" for name in (_file(compiled), _file(emulated))]
    instructions = tuple((compiled.card or {}).get("instructions", ()))
    if emulated.stage or not all(file.exists() for file in files):
        reason = f"not emulated: {emulated.message}"
        return replace(compiled, beside=Beside(instructions=instructions, reason=reason))
    one, other = map(changes_in, files)
    elements = different = 0
    most = of_largest = 0.0
    for name, change in one.items():
        where = np.union1d(change.where, other[name].where)
        pair = (change, other[name])
        bits = [at(where, mine, pair) for mine in pair]
        if where.size and bits[0].dtype.kind == "u":
            dtype = name.rsplit(" ", 1)[1]
            found = ulps(dtype, *bits)
            of_largest = max(of_largest, share(dtype, *bits))
            elements, different = elements + where.size, different + int(np.count_nonzero(found))
            most = max(most, float(found.max()))
    findings = "; ".join(emulated.findings)
    beside = Beside(elements, different, most, of_largest, instructions, f"it finds: {findings}" if findings else "")
    return replace(compiled, beside=beside)


def _file(compiled: Compiled) -> str:
    return compiled.target if compiled.card is None else "card"


def _compared(compiled: Compiled, folder: Path) -> Compiled:
    files = [folder / compiled.identity / f"{name}.npz" for name in (_file(compiled), "eager", "golden", "nudged")]
    if compiled.stage or compiled.without is None or not files[0].exists():
        return compiled
    if absent := [path.stem for path in files if not path.exists()]:
        return replace(compiled, without=compiled.without or f"there is no {absent[0]}")
    try:
        numbers = _numbers(f"{compiled.identity}/{compiled.target}", *map(changes_in, files))
    except _NothingToCompareError as error:
        return replace(compiled, without=str(error))
    return replace(compiled, numbers=numbers)


class _NothingToCompareError(Exception):
    """No output can be compared. The text says why."""


def _numbers(key: str, actual: Changes, eager: Changes, golden: Changes, nudged: Changes) -> Numbers:
    """Compare each tensor that a launch changed, on the elements that the machine code or the reference has changed.

    Raises:
        _NothingToCompareError: nothing changed, or no output can be compared.
    """
    metrics: dict[str, float] = {}
    faults: list[str] = []
    without: list[str] = []
    for name, change in actual.items():
        where = np.union1d(change.where, eager[name].where)
        label, dtype = name.rsplit(" ", 1)
        label, comparer = re.sub(r"\W", "_", label), Comparer(key, defaults.accuracy("launch", {}), strict=False)
        compare = _floats if dtype in FLOATS else _integers
        kind = np.dtype(FLOATS.get(dtype, dtype))
        try:
            if where.size:
                found = compare(comparer, label, where, kind, change, eager[name], golden[name], nudged[name])
                faults += found
                for figure, value in comparer.metrics.items():
                    metrics[figure] = value + (metrics.get(figure, 0.0) if figure in _SUMS else 0.0)
        except _NothingToCompareError as error:
            without.append(str(error))
    if not metrics and not faults:
        raise _NothingToCompareError("; ".join(without) or "the launch changed no tensor")
    return Numbers(metrics, {"not compared": "; ".join(without)} if without else {}, tuple(faults))


_SUMS = ("elements", "canary.injected", "canary.caught")  # figures of all outputs together


def _integers(comparer: Comparer, label: str, where: Any, kind: Any, actual: Change, *references: Change) -> list[str]:
    """Return a sentence if an element is none of those that the reference gives, rounded or not."""
    result, *given = (at(where, change, references).view(kind) for change in (actual, *references))
    known = np.any([result == one for one in given], axis=0)
    if wrong := int(np.count_nonzero(~known)):
        return [f"{label}: {wrong} of {where.size} integers differ from the reference's"]
    exact = np.where(known, result, given[0]).astype(np.float64)
    comparer.compare(exact.copy(), exact, eager=exact.copy(), name=label)
    return []


def _floats(comparer: Comparer, label: str, where: Any, kind: Any, actual: Change, *references: Change) -> list[str]:
    eager, golden, nudged = references
    bits = (actual, eager)
    result, plain = (at(where, change, bits).view(kind) for change in bits)
    with np.errstate(invalid="ignore"):  # what was there before may be signalling NaNs
        earlier = at(where, actual, bits, before=True).view(kind).astype(np.float64)
    old = Change(where, earlier, np.empty(0))
    exact, moved = (at(where, change, (golden, nudged, old)) for change in (golden, nudged))
    is_nan = np.isnan(exact) & np.isnan(plain.astype(np.float64))
    if wrong := int(np.count_nonzero(is_nan & ~np.isnan(result.astype(np.float64)))):
        return [f"{label}: {wrong} elements are numbers where the reference has NaN"]
    result, exact, plain, moved = (one[~is_nan] for one in (result, exact, plain, moved))
    if np.isnan(exact).any() or not np.isfinite(plain[np.isfinite(exact)].astype(np.float64)).all():
        raise _NothingToCompareError(f"{label}: rounded, the reference has NaN or Inf where it has numbers in float64")
    if not exact.size:
        return []
    faults = []
    try:
        comparer.compare(result, exact, eager=plain, nudged=moved, name=label)
    except OutOfBudgetError as error:
        faults = [str(error)]
    except BlindComparisonError as error:
        raise _NothingToCompareError(str(error)) from None
    if not comparer.metrics[f"{label}.limit_rel_fro"] < 1:
        raise _NothingToCompareError(f"{label}: the exact result is smaller than the rounding errors: zeros would pass")
    return faults


def lines(recording: Recording) -> Iterator[str]:
    """Yield what ran on the emulator, and what of it was not compared, in lines for a terminal."""
    ran = [one for one in recording.compiled if one.without is not None and not one.stage]
    on_gpu = {one.target for one in ran if one.card is not None}
    kernels = {launch.identity: launch.kernel for launch in recording.launches}
    simulator = recording.simulator
    by = f" by {simulator.text}" if simulator else ""
    for target in dict.fromkeys(one.target for one in ran):
        there = [one for one in ran if one.target == target]
        found = sum(bool(one.findings) for one in there)
        numbers = sum(one.numbers is not None and not one.findings for one in there)
        where = f"ran on {recording.card.name}" if recording.card and target in on_gpu else f"emulated on {target}{by}"
        launches = counted(len(there), "launch", "launches")
        yield f"  {where}: {launches} ran, {numbers} were compared, {found} have findings"
    for kernel, reason in dict.fromkeys((kernels[one.identity], one.without) for one in ran if one.without):
        yield f"  not compared: {kernel}: {reason}"
    if simulator:
        known = dict.fromkeys(one for compiled in ran for one in simulator.deviations(compiled.target))
        yield from (f"  known of {simulator.name}: {one.text} ({one.source})" for one in known)
