"""The origin of this installation of the harness, and the commands by which its reader installs more of it.

pip and uv write where they got a distribution from (PEP 610). A checkout that is on the import path is no distribution.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from kernel_matrix import __version__
from kernel_matrix.base import git
from kernel_matrix.base.pip_files import with_files

NAME = "kernel-matrix"
# The extra of this project that brings a library, by the name that is imported; its own distributions of that extra.
_EXTRAS = {"docker": "containers", "hypothesis": "fuzz", "ruptures": "trends"}
_OWN = {"emulate": ("gpu_emulators",)}
_PIP_TO_UV = {
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_CERT": "SSL_CERT_FILE",
}


def own_version() -> str:
    """Return the name and the version of this installation, and its commit where that is known."""
    root = Path(__file__).parents[3]
    is_clone = (root / ".git").exists() and (root / "pyproject.toml").is_file()
    commit = git.commit(root) if is_clone else str(_told().get("vcs_info", {}).get("commit_id", ""))[:12]
    return f"{NAME} {__version__}{f' (commit {commit})' if commit else ''}"


def requirement() -> str:
    """Return the requirement with which pip gets this installation elsewhere; empty for one from a local folder."""
    told = _told()
    address = _in_version_control(told)
    if told and not address:
        return ""
    return f"{NAME} @ {address}" if address else f"{NAME}=={_version()}"


def lacking(error: ModuleNotFoundError) -> str:
    """Return the sentence for a library that an extra of this project brings; empty for any other module."""
    library = (error.name or "").partition(".")[0]
    extra = _EXTRAS.get(library)
    return f"this needs the library {library}, which the extra '{extra}' brings: {installing(extra)}" if extra else ""


def installing(extra: str) -> str:
    """Return the command that installs here what an extra of this project brings."""
    requirements = _requirements(extra, _told())
    if not requirements:
        own = "".join(f" ./src/{part}" for part in _OWN.get(extra, ()))
        return f"pip install '.[{extra}]'{own}, in a clone of {NAME}"
    if is_from_uvx():  # what it makes is for one start
        more = [word for one in requirements for word in ("--with", one)]
        return shlex.join(["uvx", *source_for_uvx(), *more, NAME, *sys.argv[1:]])
    pip = _pip()
    return shlex.join([*pip, *requirements]) if pip else into(sys.executable, *requirements)


def into(python: str, *requirements: str) -> str:
    """Return the line that installs requirements into the environment of a Python, which need not have pip."""
    return uv_line("pip", "install", "--python", python, *requirements)


def uv_line(*words: str) -> str:
    """Return the line by which a reader runs uv as the harness does: with pip's settings, by their names."""
    settings = [
        f'{name}="${pip}"' if value == os.environ.get(pip) else f"{name}={shlex.quote(value)}"
        for name, (pip, value) in settings_of_pip(os.environ).items()
    ]
    return " ".join([*settings, shlex.join([typed("uv"), *words])])


def settings_of_pip(variables: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the variables by which uv gets pip's settings, each with pip's name and the value, where uv has none."""
    known = with_files(variables)
    return {
        name: (pip, ",".join(known[pip].split()) if name == "UV_FIND_LINKS" else known[pip])
        for pip, name in _PIP_TO_UV.items()
        if pip in known and name not in variables
    }


def typed(program: str) -> str:
    """Return how a program that came with the harness is typed here: by its path where no shell finds it."""
    beside = Path(sys.executable).with_name(program)
    return program if shutil.which(program) or not beside.exists() else str(beside)


def is_from_uvx() -> bool:
    """Return whether uvx made the environment of this process: in uv's cache, which is on no shell's PATH."""
    return (Path(sys.prefix).parent.parent / "CACHEDIR.TAG").is_file()


def source_for_uvx() -> list[str]:
    """Return what tells uvx where this installation came from: nothing if from an index."""
    told = _told()
    return ["--from", _in_version_control(told) or told["url"]] if told else []


def _pip() -> list[str]:
    """Return the words by which pip installs into the environment of this process; none where it has no pip."""
    found = shutil.which("pip")
    if found and Path(found).parent == Path(sys.executable).parent:
        return ["pip", "install"]
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "install"]
    return []


def _requirements(extra: str, told: Mapping[str, Any]) -> list[str]:
    """Return what installs an extra of the same origin as this installation; nothing if that cannot be found."""
    own, parts = f"{NAME}[{extra}]", _OWN.get(extra, ())
    if not told:
        return [f"{own}=={_version()}"]
    if address := _in_version_control(told):
        return [f"{own} @ {address}", *(f"{_dashed(part)} @ {address}#subdirectory=src/{part}" for part in parts)]
    place = urlsplit(told["url"])
    root = Path(unquote(place.path)) if told["url"] else Path(__file__).parents[3]
    folders = [root, *(root / "src" / part for part in parts)]
    if all((folder / "pyproject.toml").is_file() for folder in folders):
        return [f"{root}[{extra}]", *map(str, folders[1:])]
    archives = [(own, told["url"]), *((_dashed(part), _archive(told["url"], part)) for part in parts)]
    return [f"{name} @ {address}" for name, address in archives] if all(map(_is_there, dict(archives).values())) else []


def _dashed(part: str) -> str:
    return part.replace("_", "-")


def _archive(url: str, part: str) -> str:
    """Return the address of another distribution of this project: in the archive of this one, or next to it."""
    folder, _, file = url.rpartition("/")
    own = NAME.replace("-", "_")
    return f"{folder}/{file.replace(own, part, 1)}" if file.startswith(own) else f"{url}#subdirectory=src/{part}"


def _is_there(url: str) -> bool:
    """Return whether an address names an archive, which is still there if it lies on the disk."""
    place = urlsplit(url)
    return url.partition("#")[0].endswith((".whl", ".zip", ".gz")) and (
        place.scheme != "file" or Path(unquote(place.path)).is_file()
    )


def _version() -> str:
    return importlib.metadata.distribution(NAME).version


def _told() -> dict[str, Any]:
    """Return what the installer wrote of where it got the harness: nothing for an index."""
    try:
        told: dict[str, Any] = json.loads(importlib.metadata.distribution(NAME).read_text("direct_url.json") or "{}")
    except importlib.metadata.PackageNotFoundError:  # a checkout that is on the import path
        return {"url": ""}
    return told


def _in_version_control(told: Mapping[str, Any]) -> str:
    control = told.get("vcs_info")
    return f"{control['vcs']}+{told['url']}@{control['commit_id']}" if control else ""
