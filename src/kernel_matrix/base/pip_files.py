"""pip's settings that stand in its files, by the names of the variables that pip reads them from too."""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

_SECTIONS = ("global", "install")  # the later one wins
_SETTINGS = ("index-url", "find-links", "cert", "constraint")


def with_files(variables: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables, and besides them what pip's files set that no variable does.

    More indexes (``extra-index-url``) are left out: pip takes the best version of all, and uv the first index with one.
    Source: pip's documentation, "Configuration".
    """
    found: dict[str, str] = {}
    for path in _files(variables):
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError):
            continue  # pip says what is wrong with it
        for section in _SECTIONS:
            for name, value in parser.items(section) if parser.has_section(section) else ():
                if (key := name.lower().replace("_", "-")) in _SETTINGS:
                    found[f"PIP_{key.upper().replace('-', '_')}"] = " ".join(value.split())
    return {**found, **variables}


def _files(variables: Mapping[str, str]) -> Iterator[Path]:
    """Yield the places of pip's files, in the order in which a later one wins."""
    own = variables.get("PIP_CONFIG_FILE", "")
    if own == os.devnull:
        return
    home = Path(variables.get("HOME") or "~").expanduser()
    folders = variables.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    yield from (Path(folder, "pip", "pip.conf") for folder in folders.split(os.pathsep) if folder)
    yield Path("/etc/pip.conf")
    if not (own and Path(own).exists()):
        yield home / ".pip" / "pip.conf"
        yield Path(variables.get("XDG_CONFIG_HOME") or home / ".config", "pip", "pip.conf")
    yield Path(sys.prefix, "pip.conf")
    if own:
        yield Path(own)
