"""Find the Python that has PyTorch: the judge computes what is right with it."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import kernel_matrix
from kernel_matrix.base.errors import UserError

_AGAIN = "KERNEL_MATRIX_VERIFY_PYTHON"  # set for the Python that was chosen, so that it chooses no other one
_DIE_WITH_PARENT = 1  # prctl(2)
_NEEDED = ("torch", "numpy", "ml_dtypes", "pytest")
# Looked for and not imported, which takes seconds, and the judge does it too.
_ASKED = f"from importlib.util import find_spec; print(*(name for name in {_NEEDED} if not find_spec(name)), sep=', ')"


def is_here(named: str | None) -> bool:
    """Return whether this Python is the one to use."""
    if _AGAIN in os.environ:
        return True
    return named is None and all(importlib.util.find_spec(name) for name in _NEEDED)


def is_instead() -> bool:
    """Return whether this process judges for another one, which goes on after it."""
    return _AGAIN in os.environ


def _bound() -> None:
    """End with the parent, however it ends: else a judge whose command was killed writes on."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)


def one_thread() -> None:
    """Have this process compute in one thread: what is compared is small, and other candidates wait."""
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))


def imported() -> None:
    """Import what the judge needs.

    Raises:
        UserError: this Python has it, and it is broken.
    """
    for name in _NEEDED:
        try:
            importlib.import_module(name)
        except (ImportError, OSError) as error:
            raise UserError(f"--python {sys.executable}: {name} cannot be imported: {error}.") from error
    sys.modules["numpy"].seterr(invalid="ignore")  # a candidate may return any bits


def instead(named: str | None, words: Sequence[str]) -> int:
    """Run the same command in a Python that has PyTorch, and return its exit status.

    Raises:
        UserError: there is none.
    """
    for path in [named] if named else [shutil.which("python3"), shutil.which("python")]:
        if path is None or (not named and Path(path).resolve() == Path(sys.executable).resolve()):
            continue
        asked = subprocess.run([path, "-c", _ASKED], capture_output=True, text=True, check=False)
        if asked.returncode == 0 and not asked.stdout.strip():
            harness = str(Path(kernel_matrix.__file__).resolve().parents[1])
            program = f"import sys; sys.path.append({harness!r}); from kernel_matrix.cli import main; sys.exit(main())"
            judge = subprocess.Popen([path, "-c", program, *words], env={**os.environ, _AGAIN: path}, preexec_fn=_bound)
            with judge:
                return judge.wait()
        if named:
            missing = asked.stdout.strip()
            lacks = f"it has no {missing}" if missing else asked.stderr.strip().split("\n")[-1] or "it is no Python"
            raise UserError(f"--python {named}: {lacks}. It needs {', '.join(_NEEDED)}.")
    raise UserError("no Python here has PyTorch: name one that has it, with pytest and ml_dtypes: --python PATH")
