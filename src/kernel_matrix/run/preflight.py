"""Check that a job's device works: run the package's preflight script in the job's environment."""

from __future__ import annotations

from kernel_matrix.job import own_files
from kernel_matrix.run.executors import Interpreter, MachineError, Request
from kernel_matrix.run.job_command import environment
from kernel_matrix.run.own_time import wait_for_end


def check(request: Request, interpreter: Interpreter) -> None:
    """Run the package's preflight script, if the job runs on a GPU and the package has one.

    Raises:
        MachineError: the device is there and not fit for work; the text is the script's last line.
    """
    script = request.matrix.package.preflight
    if script is None or not request.gpu or request.device is None:
        return
    log = request.folder / "preflight.txt"
    own_files.remove(log)
    child = interpreter.start(
        [interpreter.seen(request.root / script)], environment(request, interpreter), request.root, log
    )
    limit = request.limits.case
    status = wait_for_end(child, limit)
    if status is None:
        raise MachineError(f"{request.device.name} is not fit for work: {script} had no answer within {limit:g} s")
    if status:
        lines = own_files.text_of(log).strip().splitlines()
        reason = lines[-1] if lines else f"{script} ended with status {status}"
        raise MachineError(f"{request.device.name} is not fit for work: {reason}")
