"""Say which checks a case has: which do not apply, and which cannot be asked, each with the reason."""

from __future__ import annotations

from kernel_matrix.kit.checks import growth
from kernel_matrix.kit.checks.names import CHECKS
from kernel_matrix.kit.draws import is_whole
from kernel_matrix.kit.running import Running

ASKED = ("autocast", "compile", "stream")  # modes, where the description asks for them
WITHIN_EVERY_RUN = ("guards", "inputs", "state", "processes", "operators")


def does_not_apply(running: Running, name: str) -> bool:
    """Return whether a check has no meaning for this case."""
    op, backward = running.op, running.backward
    if name in ASKED:
        return name not in op.modes
    narrow = any(one.dtype.itemsize < 4 and not is_whole(one) for one in running.out.values())
    return {
        "misrounded": not narrow or (not op.same_bits and op.exact),
        "inputs": len(op.in_place) == len(op.inputs) and not backward,
        "gradients": not backward and len(op.optional) < 2,
        "operators": op.operators is None and not op.forbidden,
        "growth": not growth.sizes_of(running),
        "holds": not op.holds,
        "times": not running.case.timed,
        "modes": backward
        or bool(op.direction)
        or bool(op.in_place)
        or not running.frame.modes
        or not any(not kind.whole for kind in op.inputs.values()),
        "rows": op.rows is not None and int(running.sizes[op.rows]) < 2,
        "kept": op.writes or len(op.in_place) == len(op.outputs),
        "magnitudes": not any(not kind.whole for kind in op.inputs.values()),
    }.get(name, False)


def why_not(running: Running, name: str) -> str:
    """Return why a check cannot be asked of this case; an empty text where it can."""
    op, frame = running.op, running.frame
    if name in running.without:
        return running.without[name]
    reasons: dict[str, tuple[bool, str]] = {
        "guards": (not frame.lays, frame.why_not),
        "unwritten": (not frame.watches, frame.why_not),
        "memory": (not frame.watches, frame.why_not),
        "fresh": (not frame.lays, frame.why_not),
        "layouts": (not frame.layouts, frame.why_not),
        "sizes": (op.rows is None and not op.free, "no axis counts rows"),
        "threads": (running.repeats_less, "an interpreter or an emulator takes long"),
        "magnitudes": (not running.by_row, "no input has the axis of rows"),
        "processes": (not running.case.kernel_children(), "this machine does not say which processes work"),
    }
    if name in ASKED:
        return _why_no_mode(running, name)
    if name in reasons and reasons[name][0]:
        return reasons[name][1]
    if name == "sizes" and running.repeats_less:
        return "an interpreter or an emulator takes long"
    return _why_no_rows(running) if name == "rows" else ""


def _why_no_mode(running: Running, name: str) -> str:
    """Return why a kernel cannot be called in a mode that the description asks for."""
    op = running.op
    if running.backward or op.direction == "backward":
        return "a backward runs as its forward did"
    if name == "stream" and running.case.device == "cpu":
        return "a CPU has no streams"
    return "an interpreter or an emulator takes long" if running.repeats_less else ""


def _why_no_rows(running: Running) -> str:
    op = running.op
    if op.rows is None:
        return "no axis counts rows"
    if not running.results_by_row:
        return "no result has the axis of rows"
    floats = any(not is_whole(running.given[name]) for name in running.by_row)
    return "" if floats else "the inputs of a row are whole numbers, which have no NaN"


def counted(names: list[str]) -> list[str]:
    """Return the names in the order of the checks."""
    return [name for name in CHECKS if name in names]
