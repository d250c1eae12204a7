"""The suite of the test doubles. A backend goes wrong in the case of two tokens and works in the others."""

import os
from pathlib import Path

import numpy as np
import pytest
from doubles import BACKENDS, double

if os.environ.get("DOUBLES_BROKEN_SUITE"):
    import a_module_that_does_not_exist  # noqa: F401


@pytest.mark.op("double", "forward")
def test_double(case):
    if case.action == "compile":
        case.compiled("text", b"out = 2 * x", {})
        return
    tokens = case.axes["tokens"]
    x = case.draw("x", (tokens, 8)).astype(np.float32)
    out = np.full_like(x, np.nan)
    marker = Path(os.environ.get("DOUBLES_FLAKY", "/nonexistent"))
    with case.stage("launch"):
        if case.backend == "asserts-nothing":
            return
        if case.backend == "flaky" and not marker.exists():
            marker.touch()
            raise OSError("the first try of a flaky kernel")
        faulty = tokens == 2
        BACKENDS.get(case.backend, double)(x, out) if faulty else double(x, out)
    golden = 2 * x.astype(np.float64)
    if case.timed and case.backend != "times-nothing":
        case.race(lambda: double(x, out), lambda: [double(x, out) for _ in range(50)])
    nudged = 2 * case.nudge("x", x.astype(np.float64))
    case.compare({"out": out}, {"out": golden}, [{"out": 2 * x}], [{"out": nudged}], {"out": 1.0}, {"out": 1})
