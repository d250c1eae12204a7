"""The commands that people are told. A message has them in backticks: `kernel-matrix COMMAND`.

A page and a file keep them so. A terminal gets them with the words that started this process.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from kernel_matrix.base import git, installation

_NAME = installation.NAME
_MARKED = re.compile(rf"`{_NAME} ([^`]+)`")
_SWITCH = re.compile(r"git switch --detach ([0-9a-f]{7,40}) && ")
_START = "KERNEL_MATRIX_START"  # ci/kernel-matrix sets it to its own path, as it was typed


def command(words: Sequence[str]) -> str:
    """Return the line of a command of the harness. It is safe to paste: all of it is quoted."""
    return shlex.join([_NAME, *words])


def here(text: str) -> str:
    """Return a text for this terminal: every marked command with the words that started this process."""
    return _MARKED.sub(lambda match: f"{_started()} {match[1]}", text)


def line_here(line: str, options: Sequence[str] = ()) -> str:
    """Return a line of commands, such as one that repeats a result, as it is typed in this terminal.

    ``options`` name the matrix.yaml and the build folder where the present folder does not have them. A checkout that
    is at the commit already is not switched to it, which would leave its branch.
    """
    line = line.replace(f"{_NAME} ", f"{_started()} ", 1)
    root = Path(options[1]).parent if "--matrix" in options else Path()
    if (switch := _SWITCH.match(line)) and (now := _revision(root)) and now.startswith(switch[1][: len(now)]):
        line = line[switch.end() :]
    if "--matrix" in options:  # so the checkout may be another one
        line = line.replace("git switch", f"git -C {shlex.quote(str(root))} switch", 1)
    return " ".join([line, *map(shlex.quote, options)])


@functools.cache
def _revision(root: Path) -> str:
    return git.revision(root)


def _started() -> str:
    """Return the words that start the harness once more from this shell."""
    if typed := os.environ.get(_START):
        return shlex.quote(typed)
    script = Path(sys.argv[0])
    if script.parts[-2:] == (module := _NAME.replace("-", "_"), "__main__.py"):
        return shlex.join([sys.executable, "-m", module])
    if script.name != _NAME:
        return _NAME
    if installation.is_from_uvx():
        return shlex.join(["uvx", *installation.source_for_uvx(), _NAME])
    found = shutil.which(_NAME)
    return _NAME if found and Path(found).samefile(script) else shlex.quote(str(script))
