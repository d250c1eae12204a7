"""The program that a person names: which Python runs it, and what that Python is told."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix.base.errors import UserError

_PYTHON = re.compile(r"(python|pypy)[\d.]*")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


@dataclass(frozen=True)
class Invocation:
    """A Python, its own options, and the program: a script, ``-m MODULE`` or ``-c TEXT``, with its arguments."""

    python: str
    options: tuple[str, ...]
    program: tuple[str, ...]

    @property
    def text(self) -> str:
        """The program as people write it."""
        return shlex.join(["python", *self.program])


def invocation(words: Sequence[str]) -> Invocation:
    """Return how the words are started: ``python SCRIPT``, or a command that is written in Python such as ``pytest``.

    Raises:
        UserError: there is no program, or it is not written in Python.
    """
    if not words:
        raise UserError("there is no program: write it after --, such as `kernel-matrix launches -- python calls.py`.")
    name, *rest = words
    path = shutil.which(name)
    if path is None:
        raise UserError(f"{name}: there is no such command. Write `python` with a script, or a command such as pytest.")
    if not _PYTHON.fullmatch(Path(name).name):
        return Invocation(_python_of(Path(path)), (), (path, *rest))
    options = []
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c"):
        options.append(rest.pop(0))
        if options[-1] in _WITH_VALUE and rest:
            options.append(rest.pop(0))
    if not rest or (rest[0] in ("-m", "-c") and len(rest) == 1):
        raise UserError(f"{shlex.join(words)}: this names no program. Add a script, -m MODULE or -c TEXT.")
    return Invocation(path, tuple(options), tuple(rest))


def _python_of(path: Path) -> str:
    """Return the Python in the first lines of a script. An installer writes two lines where the first is too long."""
    with path.open("rb") as file:
        head = file.read(4096).decode("utf-8", errors="replace").splitlines()[:2]
    if head and head[0].startswith("#!"):
        text = head[1] if head[0] == "#!/bin/sh" and len(head) > 1 else head[0]
        for word in re.findall(r"[^\s'\"!#]+", text):
            python = shutil.which(word) if _PYTHON.fullmatch(Path(word).name) else None
            if python is not None:
                return str(python)
    raise UserError(
        f"{path}: this is not written in Python, so its launches cannot be recorded. Write `python SCRIPT`."
    )
