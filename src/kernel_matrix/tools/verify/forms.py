"""Find out in which form a task and its candidate come."""

from __future__ import annotations

from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.tools.verify.tasks.functions import Functions, source_of
from kernel_matrix.tools.verify.tasks.kernelbench import KernelBench
from kernel_matrix.tools.verify.tasks.task import Task


def read_task(against: str, inputs: str | None, *, device: str, fixed: bool, candidate: str = "") -> Task:
    """Return the task.

    Raises:
        UserError: a file is not there, or the form is not known.
        UnusableError: the task cannot be used.
    """
    if _is_function(against):
        if inputs is None:
            raise UserError(
                f"--against {against}: a function needs --inputs module:function, which returns its arguments"
            )
        if not _is_function(candidate):
            raise UserError(f"{candidate}: the candidate is a function too: package.module:function")
        return Functions(against, inputs, candidate)
    if inputs is not None:
        raise UserError("--inputs is for functions: --against package.module:function")
    return KernelBench(_text(Path(against)), device=device, fixed=fixed)


def read_candidate(candidate: str, task: Task) -> str:
    """Return the candidate's text.

    Raises:
        UserError: it cannot be read.
    """
    return source_of(candidate) if isinstance(task, Functions) else _text(Path(candidate))


def _is_function(name: str) -> bool:
    return ":" in name and not Path(name).exists()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: it cannot be read: {error}.") from error
