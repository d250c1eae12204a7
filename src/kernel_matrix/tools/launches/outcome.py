"""The end of a launch for a target: compiled or run, with an error, or with wrong numbers."""

from __future__ import annotations

from typing import Literal

from kernel_matrix.tools.launches.recording import Compiled, Launch
from kernel_matrix.tools.launches.targets import known, over_limits

Outcome = Literal["pass", "fail", "error", "unavailable"]
_SKIPPED = ("CompileTimeAssertionFailure", "PTXASError", "ptxas")


def outcome_of(compiled: Compiled, launch: Launch) -> tuple[Outcome, str, str]:
    """Return the outcome, the stage of an error, and the message."""
    if compiled.stage == "unavailable":
        return "unavailable", "", compiled.message
    stage, message = compiled.stage, compiled.message
    if not stage and (fault := over_limits(known()[compiled.target], compiled.figures)):
        stage, message = "launch", fault
    if stage:
        if launch.tuned and (stage == "launch" or compiled.message.startswith(_SKIPPED)):
            place = f"it is configuration {launch.tuned[1] + 1} of an autotuned launch"
            message += f"; {place}: Triton skips it if another works"
        return "error", stage, message
    if compiled.findings:
        return "error", "launch", "; ".join(compiled.findings)
    if compiled.numbers is not None and compiled.numbers.faults:
        return "fail", "", "; ".join(compiled.numbers.faults)
    return "pass", "", ""
