"""Find out in which form a task and its candidate come."""

from __future__ import annotations

from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.tools.verify.tasks.kernelbench import KernelBench
from kernel_matrix.tools.verify.tasks.task import Task


def read(candidate: str, against: str | None, inputs: str | None, *, device: str, fixed: bool) -> tuple[Task, str]:
    """Return the task, and the candidate's text.

    Raises:
        UserError: a file is not there, or the form is not known.
    """
    reference = Path(str(against))
    return KernelBench(_text(reference), device=device, fixed=fixed), _text(Path(candidate))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: it cannot be read: {error}.") from error
