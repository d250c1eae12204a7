"""The suite of the test doubles. A backend goes wrong in the case of two tokens and works in the others."""

import os

import numpy as np
import pytest

if os.environ.get("DOUBLES_BROKEN_SUITE"):
    import a_module_that_does_not_exist  # noqa: F401


@pytest.mark.op("double", "forward")
def test_double(case):
    if case.action == "compile":
        case.compiled("text", b"out = 2 * x", {})
        return
    tokens = case.axes["tokens"]
    x = case.draw("x", (tokens, 8)).astype(np.float32)
    if case.backend == "asserts-nothing":
        return
    _, results = case.call("kernel_side:run", {"x": x}, backend=case.backend, faulty=tokens == 2)
    golden = 2 * x.astype(np.float64)
    if case.timed and case.backend != "times-nothing":
        with case.quiet():
            times, _ = case.call("kernel_side:race", {"x": x})
            case.record_race(times)
    nudged = 2 * case.nudge("x", x.astype(np.float64))
    case.compare(results, {"out": golden}, [{"out": 2 * x}], [{"out": nudged}], {"out": 1.0}, {"out": 1})
