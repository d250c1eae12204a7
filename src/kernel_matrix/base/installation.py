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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

NAME = "kernel-matrix"
_PIP_TO_UV = {
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_CERT": "SSL_CERT_FILE",
}


def requirement() -> str:
    """Return the requirement with which pip gets this installation elsewhere; empty for one from a local folder."""
    told = _told()
    address = _in_version_control(told)
    if told and not address:
        return ""
    return f"{NAME} @ {address}" if address else f"{NAME}=={_version()}"


def installing(*parts: str) -> str:
    """Return the command that installs further distributions of this project here: the folders ``parts`` of ``src``."""
    requirements = _requirements(parts, _told())
    if not requirements:
        return elsewhere(*parts)
    if is_from_uvx():  # what it makes is for one start
        more = [word for one in requirements for word in ("--with", one)]
        return shlex.join(["uvx", *source_for_uvx(), *more, NAME, *sys.argv[1:]])
    pip = _pip()
    return shlex.join([*pip, *requirements]) if pip else into(sys.executable, *requirements)


def elsewhere(*parts: str) -> str:
    """Return how the reader of a page installs distributions of this project: without a folder of this machine."""
    told = _told()
    if not told or _in_version_control(told):
        return shlex.join(["pip", "install", *_requirements(parts, told)])
    return f"pip install {' '.join(['.', *(f'./src/{part}' for part in parts)])}, in a clone of {NAME}"


def into(python: str, *requirements: str) -> str:
    """Return the line that installs requirements into the environment of a Python, which need not have pip."""
    return uv_line("pip", "install", "--python", python, *requirements)


def uv_line(*words: str) -> str:
    """Return the line by which a reader runs uv as the harness does: with pip's settings, by their names."""
    settings = [
        f'{name}="${pip}"' if value == os.environ[pip] else f"{name}={shlex.quote(value)}"
        for name, (pip, value) in settings_of_pip(os.environ).items()
    ]
    return " ".join([*settings, shlex.join([typed("uv"), *words])])


def settings_of_pip(variables: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the variables by which uv gets pip's settings, each with pip's name and the value, where uv has none."""
    return {
        name: (pip, ",".join(variables[pip].split()) if name == "UV_FIND_LINKS" else variables[pip])
        for pip, name in _PIP_TO_UV.items()
        if pip in variables and name not in variables
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


def _requirements(parts: Sequence[str], told: Mapping[str, Any]) -> list[str]:
    """Return what installs distributions of the same origin as this one; nothing if that cannot be found any more."""
    names = {part: part.replace("_", "-") for part in parts}
    if not told:
        return [f"{name}=={_version()}" for name in names.values()]
    if address := _in_version_control(told):
        return [f"{name} @ {address}#subdirectory=src/{part}" for part, name in names.items()]
    place = urlsplit(told["url"])
    root = Path(unquote(place.path)) if told["url"] else Path(__file__).parents[3]
    folders = [root, *(root / "src" / part for part in parts)]
    if all((folder / "pyproject.toml").is_file() for folder in folders):
        return [str(folder) for folder in folders]  # with this one, whose version they name
    return [f"{name} @ {address}" for part, name in names.items() if (address := _archive(told["url"], part))]


def _archive(url: str, part: str) -> str:
    """Return the address of a distribution in this one's archive, or next to it; empty if there is none."""
    folder, _, file = url.rpartition("/")
    own = NAME.replace("-", "_")
    if not file.endswith((".whl", ".zip", ".gz")):
        return ""
    if not file.startswith(f"{own}-{_version()}"):
        return f"{url}#subdirectory=src/{part}"
    address = f"{folder}/{file.replace(own, part, 1)}"
    place = urlsplit(address)
    return "" if place.scheme == "file" and not Path(unquote(place.path)).is_file() else address


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
