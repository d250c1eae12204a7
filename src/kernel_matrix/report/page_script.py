"""Write the page's files of data: scripts that hand a JSON value to the page, and that nothing in them can end."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from kernel_matrix.base.files import write_atomically

_ENCODE = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def encoded(value: Any) -> str:
    """Return a value as JSON in ASCII. A number that is not finite becomes a string, because JSON has none."""
    try:
        return _ENCODE(value)
    except ValueError:
        return _ENCODE(_finite(value))


def write_script(path: Path, name: str, text: str) -> None:
    """Write the file of data ``name``, whose value is the JSON text.

    A script file ends at no text in it. The characters are escaped all the same, for whoever puts the file into a page.
    """
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, f'kernelMatrix.put("{name}",{safe});\n')


def read_script(path: Path) -> Any:
    """Return the value of a file of data.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no such file.
    """
    text = path.read_text(encoding="utf-8")
    head, comma, value = text.partition(",")
    if not head.startswith("kernelMatrix.put(") or not comma or not value.endswith(");\n"):
        raise ValueError(f"{path} is no file of the page's data")
    return json.loads(value[:-3])


def remove_others(folder: Path, kept: set[Path]) -> None:
    """Remove the files of data of an older report, which this one did not write."""
    for path in (*folder.glob("*.js"), *folder.glob("cells/*.js")):
        if path not in kept:
            path.unlink(missing_ok=True)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value
