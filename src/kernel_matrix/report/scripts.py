"""Write the page's files of data: scripts that hand a JSON value to the page, and that nothing in them can end."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from kernel_matrix.base.files import write_atomically

MOST_CHARACTERS = 100_000  # of one text: the results have all of it
_NOT_FINITE = (b'"Infinity"', b'"-Infinity"', b'"NaN"')
# JSON may hold them as they are. In JavaScript of before 2019 the last two end a line, and a script that somebody puts
# into a page must not end there.
_ESCAPED = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def encoded(value: Any) -> bytes:
    """Return a value as JSON. A number that is not finite becomes a string, because JSON has none.

    pydantic's encoder is several times as fast as Python's. It has other names for infinity, and takes no text
    that UTF-8 does not have.
    """
    try:
        text = to_json(value, inf_nan_mode="strings")
    except PydanticSerializationError:
        return json.dumps(_finite(value), separators=(",", ":"), allow_nan=False).encode()
    if any(word in text for word in _NOT_FINITE):
        return to_json(_finite(value))
    return text


def write_script(path: Path, name: str, text: bytes) -> None:
    """Write the file of data ``name``, whose value is the JSON text."""
    for character, escape in _ESCAPED:
        if character[:1] in text:  # one byte is looked for many times as fast as three
            text = text.replace(character, escape)
    write_atomically(path, b"".join((b'kernelMatrix.put("', name.encode(), b'",', text, b");\n")))


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return a text; of a very long one the beginning, and how much was cut."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n… {len(text) - most} more characters are in the results."


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
