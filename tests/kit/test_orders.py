"""The baseline adds in other orders too, along axes whose order the plain code follows."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_matrix.job.case import RunningCase
from kernel_matrix.kit import array, draws, plain
from kernel_matrix.kit.description import described_as
from kernel_matrix.kit.orders import COUNT, in_other_orders

AXES = {"tokens": 2, "hidden": 3}
MATRIX, SUM = array("tokens", "hidden", dtype="fp32"), array("tokens", dtype="fp32")
LUCKY = np.array([[2.0**25, -(2.0**25), 1], [1, 2, 4]], np.float32)  # the first row adds up exactly in this order


def total(x):
    return x[:, 0] + x[:, 1] + x[:, 2]


def running(x):
    return np.stack([x[:, 0], x[:, 0] + x[:, 1], total(x)], 1)


def column(x, which):
    return np.concatenate([x.T[which], total(x)[None]])


def errors(plain_code, output, **more):
    """Return the largest error of the result in each run of the baseline."""
    op = described_as(plain_code, {"y": output}, {"x": MATRIX, "rows": "tokens", **more})
    job = {"backend": "", "device": "cpu", "accuracy": {}}
    case = {"id": "", "name": "", "op": "one", "direction": "forward", "target": "", "axes": AXES, "action": "run"}
    running_case = RunningCase(job, case, None)
    given = draws.drawn(running_case, op, AXES, given={"x": LUCKY})
    own = plain.numbers(running_case, op, given, AXES, [], 0)
    found = in_other_orders(running_case, op, given, AXES, [], own)
    return [float(np.abs(one["y"] - found.golden["y"]).max()) for one in found.baseline]


def test_the_luck_of_one_order_is_not_that_of_others():
    [own, *others] = errors(total, SUM)
    assert (own, len(others), max(others)) == (0, COUNT, 1)


@pytest.mark.parametrize(
    ("plain_code", "output", "more"),
    [
        (running, MATRIX, {}),
        (column, array(3, "tokens", dtype="fp32"), {"which": array(2, below="hidden")}),
    ],
)
def test_an_axis_whose_order_plain_code_does_not_follow_keeps_it(plain_code, output, more):
    [own, *others] = errors(plain_code, output, **more)
    assert (own, others) == (0, [0] * COUNT), "the rows change places alone"
