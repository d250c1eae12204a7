"""The commands that people are told. A message has them in backticks: `kernel-matrix COMMAND`.

A page and a file keep them so. A terminal gets them with the words that started this process.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_NAME = "kernel-matrix"
_MARKED = re.compile(rf"`{_NAME} ([^`]+)`")
_START = "KERNEL_MATRIX_START"  # ci/kernel-matrix sets it to its own path, as it was typed


def command(words: Sequence[str]) -> str:
    """Return the line of a command of the harness. It is safe to paste: all of it is quoted."""
    return shlex.join([_NAME, *words])


def here(text: str) -> str:
    """Return a text for this terminal: every marked command with the words that started this process."""
    return _MARKED.sub(lambda match: f"{_started()} {match[1]}", text)


def line_here(line: str, options: Sequence[str] = ()) -> str:
    """Return a line of commands, such as one that repeats a result, as it is typed in this terminal.

    ``options`` name the matrix.yaml and the build folder where the present folder does not have them.
    """
    line = line.replace(f"{_NAME} ", f"{_started()} ", 1)
    if "--matrix" in options:  # so the checkout may be another one
        line = line.replace("git switch", f"git -C {shlex.quote(str(Path(options[1]).parent))} switch", 1)
    return " ".join([line, *map(shlex.quote, options)])


def _started() -> str:
    """Return the words that start the harness once more from this shell."""
    if typed := os.environ.get(_START):
        return shlex.quote(typed)
    script = Path(sys.argv[0])
    if script.name != _NAME:
        return _NAME
    if (Path(sys.prefix).parent.parent / "CACHEDIR.TAG").is_file():  # uv's cache, which is on no shell's PATH
        return shlex.join(["uvx", *_source_for_uvx(), _NAME])
    found = shutil.which(_NAME)
    return _NAME if found and Path(found).samefile(script) else shlex.quote(str(script))


def _source_for_uvx() -> list[str]:
    """Return what tells uvx where this installation came from: nothing if from an index."""
    told = _told()
    return ["--from", _in_version_control(told) or told["url"]] if told else []


def requirement() -> str:
    """Return the requirement with which pip gets this installation elsewhere; empty for one from a local folder."""
    told = _told()
    address = _in_version_control(told)
    if told and not address:
        return ""
    return f"{_NAME} @ {address}" if address else f"{_NAME}=={importlib.metadata.distribution(_NAME).version}"


def _told() -> dict[str, Any]:
    """Return what the installer wrote of where it got the harness (PEP 610): nothing for an index."""
    try:
        told: dict[str, Any] = json.loads(importlib.metadata.distribution(_NAME).read_text("direct_url.json") or "{}")
    except importlib.metadata.PackageNotFoundError:  # a checkout that is on the import path
        return {"url": ""}
    return told


def _in_version_control(told: Mapping[str, Any]) -> str:
    control = told.get("vcs_info")
    return f"{control['vcs']}+{told['url']}@{control['commit_id']}" if control else ""
