"""Find out in which form a task and its candidate come."""

from __future__ import annotations

from pathlib import Path

from kernel_matrix.base.errors import UserError, reason_of
from kernel_matrix.tools.verify.tasks.backendbench import BackendBench, implementation
from kernel_matrix.tools.verify.tasks.flashinfer import FlashInfer
from kernel_matrix.tools.verify.tasks.functions import Functions, source_of
from kernel_matrix.tools.verify.tasks.gpumode import FILE, GpuMode
from kernel_matrix.tools.verify.tasks.kernelbench import KernelBench
from kernel_matrix.tools.verify.tasks.task import Task


def read_task(against: str, inputs: str | None, *, device: str, fixed: bool, candidate: str = "") -> Task:
    """Return the task.

    Raises:
        UserError: a file is not there, or the form is not known.
        UnusableError: the task cannot be used.
    """
    path = Path(against)
    if _is_function(against):
        if inputs is None:
            raise UserError(
                f"--against {against}: a function needs --inputs module:function, which returns its arguments"
            )
        if not _is_function(candidate):
            raise UserError(f"{candidate}: the candidate is a function too: package.module:function")
        return Functions(against, inputs, candidate)
    if path.suffix == ".json":
        return FlashInfer(path, Path(candidate), Path(inputs) if inputs else None)
    if inputs is not None:
        raise UserError("--inputs is for functions (package.module:function), and for the workloads of a definition")
    if path.is_dir():
        return _of_folder(path)
    return KernelBench(_text(path), device=device, fixed=fixed)


def _of_folder(path: Path) -> Task:
    """Return the task of a folder.

    Raises:
        UserError: its form is not known.
    """
    if (path / FILE).is_file():
        return GpuMode(path)
    if implementation(path):
        return BackendBench(path)
    raise UserError(
        f"{path}: a folder has {FILE} with reference.py (GPU MODE), or is NAME__OVERLOAD with "
        f"NAME__OVERLOAD_implementation_v1.py (BackendBench)"
    )


def read_candidate(candidate: str, task: Task) -> str:
    """Return the candidate's text.

    Raises:
        UserError: it cannot be read.
        UnusableError: it is not in the form of its task.
    """
    path = Path(candidate)
    if isinstance(task, Functions):
        return source_of(candidate)
    if isinstance(task, FlashInfer):
        return task.source
    return _text((implementation(path) or path / "submission.py") if path.is_dir() else path)


def _is_function(name: str) -> bool:
    return ":" in name and not Path(name).exists()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: it cannot be read: {reason_of(error)}.") from error
