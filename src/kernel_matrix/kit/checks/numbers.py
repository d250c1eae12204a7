"""The numbers of the case's own inputs: golden, roundings, and other runs on the same inputs."""

from __future__ import annotations

import numpy as np

from kernel_matrix.job.budget import most_misrounded
from kernel_matrix.job.defaults import MISROUNDED
from kernel_matrix.job.inputs import Array
from kernel_matrix.kit import draws, plain
from kernel_matrix.kit.draws import is_whole, of_rows
from kernel_matrix.kit.layouts import same_bytes
from kernel_matrix.kit.misbehaviour import WrongResultError
from kernel_matrix.kit.running import Running

_REPEATS = 5
_TOGETHER_BYTES = 64 << 20  # of results that come back from several runs in one call
_LEAST = 9  # elements of a golden that is looked at: fewer can be exact in fp32 by luck


def golden(running: Running) -> None:
    """Compare the first run of every variant with the golden, and have the case record all figures."""
    running.variants = running.find_variants()
    for variant in running.variants:
        running.variant = variant
        running.outs[variant] = running.run(running.given)
    running.variant = ""
    op, limits = running.op, running.compared
    if not op.exact:
        _hold_golden_is_exact(running, limits)
    compared, given = [name for name, one in running.out.items() if not is_whole(one)], limits
    if not compared:  # a case has figures: plain code gives these very numbers, so both errors are 0
        compared, given = list(running.out), limits.of_whole_numbers()
    if compared:
        every = {
            f"{n}{variant}": out[n].astype(np.float64) if is_whole(out[n]) else out[n]
            for variant, out in running.outs.items()
            for n in compared
        }
        running.case.compare(
            every,
            *given.of(compared).of_variants(running.variants)[:-1],
            axes=_names_of_axes(running),
            shortened=lambda: _without_last_row(running),
        )
    for name, one in ((n, one) for out in running.outs.values() for n, one in out.items()):
        if (op.exact or is_whole(one)) and not same_bytes(one, limits.baseline[0][name]):
            raise WrongResultError("kit-exact", f"{name}: not the very bits that plain code gives")


def _names_of_axes(running: Running) -> dict[str, tuple[str, ...]]:
    """Return the names of the axes of each result, for canaries: those of rows are tokens there."""
    op = running.op
    kinds = {name: kind for name, kind in (op.inputs if running.asked else op.outputs).items() if name in running.out}
    names = {
        name: tuple("tokens" if one == op.rows else one if isinstance(one, str) else "other" for one in kind.axes)
        for name, kind in kinds.items()
    }
    return {f"{name}{variant}": axes for variant in running.variants for name, axes in names.items()}


def _hold_golden_is_exact(running: Running, limits: plain.Numbers) -> None:
    """Check that the plain code keeps float64: its golden of inputs that are off by an error of fp32 is no fp32."""
    if all(is_whole(one) for one in running.given.values()):
        return
    for name, values in limits.nudged[0].items():
        kind = running.op.outputs.get(name)
        if values.size < _LEAST or (kind is not None and kind.whole and not running.asked):
            continue
        with np.errstate(over="ignore"):
            narrow = bool((values == values.astype(np.float32)).all())
        if narrow and _shows_precision(values, limits.baseline[0][name]):
            text = f"{name}: the plain code computes its golden in fp32 or less"
            raise WrongResultError("kit-narrow-golden", text)


def _shows_precision(values: plain.Golden, baseline: Array) -> bool:
    """Return whether values tell how they were computed: no few ones of a clamp, no whole numbers, no sums of zero."""
    off = plain.largest(baseline.astype(np.float64) - values)
    return off < plain.largest(values) and np.unique(values).size >= _LEAST and bool((values != np.rint(values)).any())


def _without_last_row(running: Running) -> dict[str, plain.Golden]:
    """Return the goldens of sums over rows without the last row, for a canary."""
    sums = [name for name in running.out if name in running.case.sums]
    if not sums or not running.by_row or running.sizes[running.op.rows or ""] < 2:
        return {}
    shorter = of_rows(running.given, running.by_row, lambda one: one[:-1])
    found = plain.exact(running.op, draws.wide(shorter), running.sizes, running.asked)
    return {name: found[name] for name in sums}


def misrounded(running: Running) -> None:
    """Hold the share of misrounded elements, where matrix.yaml has no limit of its own."""
    if running.case.accuracy.get("misrounded") is not None or running.op.compute == "case":
        return
    for name, one in running.out.items():
        if one.dtype.itemsize >= 4 or is_whole(one) or not one.size:
            continue
        figure = f"{name}{running.variant}"
        share = running.case.metrics[f"{figure}.misrounded"]
        most = most_misrounded(MISROUNDED, one.size, running.case.metrics[f"{figure}.floor_misrounded"])
        if share > most:
            text = f"{name}: {share:.1%} of the elements are misrounded, over {most:.1%}: it was rounded before"
            raise WrongResultError("kit-misrounded", text)


def repeats(running: Running) -> None:
    """Run the kernel again and again on the same inputs, at the same addresses.

    Where it takes long, the one run has what nobody has written poisoned: it is the check "unwritten" too.
    """
    poison, left = ("nan", 1) if running.repeats_less else ("", _REPEATS)
    together = max(1, _TOGETHER_BYTES // max(1, sum(one.nbytes for one in running.out.values())))
    number = 1
    while left:
        runs = min(left, together)
        left -= runs
        running.run(running.given, keep=number == 1, poison=poison, runs=runs)
        for out in running.several:
            number += 1
            running.case.record_repeat(same=all(same_bytes(out[name], one) for name, one in running.out.items()))
            running.same("kit-other-bits", out, f"run {number} on the same inputs gives other results")


def fresh(running: Running) -> None:
    """Run the kernel on arrays at other addresses."""
    running.same("kit-address", running.run(running.given, fresh=True), "other results at other addresses")


def threads(running: Running) -> None:
    """Run the kernel in two threads at once, on inputs of their own."""
    other = running.given if running.op.rows is None else of_rows(running.given, running.by_row, lambda one: one[::-1])
    arrays = {f"1 {name}": one for name, one in running.given.items()}
    arrays |= {f"2 {name}": np.asarray(one, order="C") for name, one in other.items()}
    kernel = running.kernel(running.sizes)
    differing, _ = running.case.call(
        "kernel_matrix.kit.kernel_side:in_threads", arrays, kernel=kernel, asked=running.asked
    )
    if differing and running.op.same_bits:
        text = f"while another thread runs the kernel: other results in {', '.join(differing)}"
        raise WrongResultError("kit-threads", text)
