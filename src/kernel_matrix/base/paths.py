"""Take the folders of this machine out of a text: results travel, and nobody else has these folders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_PACKAGES = re.compile(r"/[^\s\"']*?/(?:site|dist)-packages/")
_LIBRARY = re.compile(r"/[^\s\"']*?/lib/python(3\.\d+)/")


def without_folders(text: str, names: Mapping[str, str], *, packages: bool = False) -> str:
    """Return the text with each path of ``names`` replaced by its name, and the home folder by ``~``.

    A path inside another is replaced first. With ``packages``, the folders before ``site-packages`` and before Python's
    standard library go as well, wherever they are.
    """
    if packages:
        text = _LIBRARY.sub(r"python\1/", _PACKAGES.sub("site-packages/", text))
    every = {str(Path.home()): "~", **names}
    for path in sorted(every, key=len, reverse=True):
        if path != "/":  # a home folder that says nothing of anyone
            text = re.sub(rf"{re.escape(path)}(?![\w-]|\.\w)", lambda _, name=every[path]: name, text)  # type: ignore[misc]
    return text
