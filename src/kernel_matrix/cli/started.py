"""The way in which this process was started: the words that start the harness once more from the same shell."""

from __future__ import annotations

import importlib.metadata
import json
import shlex
import shutil
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import kernel_matrix
from kernel_matrix.config.model import Start

_NAME = "kernel-matrix"


def start_here() -> Start:
    """Return the command for messages in this terminal, where no matrix.yaml names another one."""
    return Start(command=f"{shlex.join(_words())} {{command}} {{options}}")


def _words() -> list[str]:
    """Return the words that start the harness: its name if the shell finds it so, or if nothing else is known."""
    script = Path(sys.argv[0])
    if _of_uvx(Path(sys.prefix)):
        return ["uvx", *_source(), _NAME]  # uv puts its folder on the PATH of this process alone
    if script.name == _NAME:
        found = shutil.which(_NAME)
        return [_NAME] if found and Path(found).samefile(script) else [str(script)]
    if script.parent == Path(kernel_matrix.__file__).parent and _is_installed():
        return [sys.executable, "-m", "kernel_matrix"]
    return [_NAME]


def _is_installed() -> bool:
    """Return whether Python finds the harness without a variable that names its folder."""
    return Path(kernel_matrix.__file__).is_relative_to(sys.prefix)


def _of_uvx(prefix: Path) -> bool:
    """Return whether an environment lies in uv's cache, where uvx makes it and nobody activates it."""
    return (prefix.parent.parent / "CACHEDIR.TAG").is_file() and "uv" in _settings(prefix / "pyvenv.cfg")


def _settings(file: Path) -> set[str]:
    try:
        return {line.partition("=")[0].strip() for line in file.read_text(encoding="utf-8").splitlines()}
    except OSError:
        return set()


def _source() -> list[str]:
    """Return what tells uvx where the harness came from: nothing if from an index."""
    try:
        text = importlib.metadata.distribution(_NAME).read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return []
    if not text:
        return []
    told = json.loads(text)
    address = urlsplit(told["url"])
    if address.scheme == "file":
        return ["--from", unquote(address.path)]
    if control := told.get("vcs_info"):
        return ["--from", f"{control['vcs']}+{told['url']}@{control['commit_id']}"]
    return ["--from", told["url"]]
