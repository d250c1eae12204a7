"""The suite: every kernel must return twice its input."""

import numpy as np
import pytest


@pytest.mark.op("double", "forward")
def test_double(case):
    x = case.draw("x", (250,)).astype(np.float32)
    _, results = case.call("kernel_side:run", {"x": x}, kernel=case.axes["kernel"])
    golden, nudged = 2 * x.astype(np.float64), 2 * case.nudge("x", x.astype(np.float64))
    case.compare(results, {"out": golden}, [{"out": 2 * x}], [{"out": nudged}], {"out": 1.0}, {"out": 1})
