"""Find out in which form a task and its candidate come."""

from __future__ import annotations

from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.tools.verify.tasks.kernelbench import KernelBench
from kernel_matrix.tools.verify.tasks.task import Task


def read_task(against: str, inputs: str | None, *, device: str, fixed: bool) -> Task:
    """Return the task.

    Raises:
        UserError: a file is not there, or the form is not known.
        UnusableError: the task cannot be used.
    """
    if inputs is not None:
        raise UserError("--inputs is for functions")
    return KernelBench(_text(Path(against)), device=device, fixed=fixed)


def read_candidate(candidate: str, _: Task) -> str:
    """Return the candidate's text.

    Raises:
        UserError: it cannot be read.
    """
    return _text(Path(candidate))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: it cannot be read: {error}.") from error
