"""Take the folders of this machine out of a text: results are read on machines that do not have them."""

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
    replacements = {str(Path.home()): "~", **names}
    for path in sorted(replacements, key=len, reverse=True):
        if path != "/":  # a home folder may be that; it names nobody, and is a part of every path
            name = replacements[path].replace("\\", r"\\")  # re.sub reads a backslash as an escape
            text = re.sub(rf"{re.escape(path)}(?![\w-]|\.\w)", name, text)
    return text
