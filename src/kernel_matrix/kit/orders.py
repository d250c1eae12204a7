"""Have plain code add in other orders too: a right kernel may add in any, and one of them may have luck.

An axis has another order if plain code in float64 follows it: its results have the same values in the new places. They
do so along rows, and along the width of a softmax, but not along that of a cumulative sum. Gradients follow the scale
of those that come in too: another one moves the places where sums are rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.inputs import Array
from kernel_matrix.kit import draws, plain
from kernel_matrix.kit.description import Operator, array

Places = npt.NDArray[np.intp]  # the old places of the elements, in their new order

COUNT = 8  # of two sums one in 25 is four times too exact by luck, of ten all are so in none of 10,000
_SAME = 2.0**-40  # of the largest value: by so much float64 may differ where an axis has another order


def in_other_orders(
    case: RunningCase,
    op: Operator,
    values: Mapping[str, Array],
    sizes: Mapping[str, Any],
    asked: Sequence[str],
    numbers: plain.Numbers,
) -> plain.Numbers:
    """Return the numbers, where the baseline has also run on inputs whose axes have other orders, and was set back."""
    into = {**op.inputs, **op.incoming}
    out = {name: (op.inputs if asked else op.outputs)[name] for name in numbers.golden}
    longer = _longer(values, into)

    def order(axis: str, number: int) -> Places:
        return np.argsort(case.draw(f"order {number} of {axis}", (longer[axis],)))

    def follows(axis: str) -> bool:
        orders = {axis: order(axis, 0)}
        try:
            found = plain.exact(op, draws.wide(_moved(values, into, orders)), sizes, asked)
        except plain.PlainCodeError:
            return False
        return _near(found, _moved(numbers.golden, out, orders))

    def baseline(number: int) -> draws.Arrays:
        orders = {axis: order(axis, number) for axis in axes}
        scale = np.float32(2 ** ((number + 0.5) / COUNT))  # no power of two, which would move nothing
        given = _moved(values, into, orders)
        given |= {name: np.multiply(given[name], scale) for name in scaled}
        found = plain.of_baseline(op, given, sizes, asked, numbers.kinds)
        back = _moved(found, out, {axis: np.argsort(places) for axis, places in orders.items()})
        return plain.rounded({n: np.divide(one, scale) if scaled else one for n, one in back.items()}, numbers.kinds)

    axes = [axis for axis in longer if follows(axis)]
    scaled = [name for name in values if name in op.incoming] if asked and op.compute == "fp32" else []
    more = [baseline(number) for number in range(COUNT if axes or scaled else 0)]
    return numbers._replace(baseline=[*numbers.baseline, *more], more=None)


def _longer(values: Mapping[str, Array], kinds: Mapping[str, array]) -> dict[str, int]:
    """Return the axes that have a name and several elements, with their sizes."""
    axes = (place for name, one in values.items() for place in zip(kinds[name].axes, one.shape, strict=True))
    return {axis: size for axis, size in axes if isinstance(axis, str) and size > 1}


def _near(found: Mapping[str, plain.Golden], expected: Mapping[str, Array]) -> bool:
    """Return whether plain code has the same values in float64."""
    return all(
        plain.largest(np.subtract(found[name], one)) <= _SAME * plain.largest(one) and found[name].shape == one.shape
        for name, one in expected.items()
    )


def _moved(values: Mapping[str, Array], kinds: Mapping[str, array], orders: Mapping[str, Places]) -> draws.Arrays:
    """Return the arrays, where these axes have other orders: the old places of elements, each at its new one."""
    moved = dict(values)
    for name in moved:
        for place, axis in enumerate(kinds[name].axes):
            if axis in orders:
                moved[name] = np.take(moved[name], orders[axis], place)
    return moved
