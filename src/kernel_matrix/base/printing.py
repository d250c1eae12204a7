"""Let no text of a stranger command a terminal: whatever a command prints has no control characters.

Results, signed files, logs and matrix.yaml come from anybody, and their texts stand in sentences everywhere. So the
streams themselves are watched, and no sentence has to be.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import Any

# Control characters, apart from the tab and the end of a line; for Python and for DuckDB.
CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
_UNPRINTED = re.compile(rf"{CONTROL}|[\ud800-\udfff\ufffe\uffff]")
# Colours and titles of a terminal. A record has U+FFFD for the escape, JUnit XML of pytest #x1B, and some logs nothing.
_ESCAPE = re.compile(
    r"(?:\x1b|\ufffd|#x1B|\^\[)(?:\[[0-?]*[ -/]*[@-~]|[\]_][^\x07\x1b\ufffd\n]*(?:\x07|\ufffd|\x1b\\))|\[\d+(?:;\d+)*m"
)
_TURNS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # the direction of what follows, on a terminal


def printable_text(text: str) -> str:
    """Replace what XML cannot hold and no terminal should get: control characters, and halves of pairs."""
    return _UNPRINTED.sub("\N{REPLACEMENT CHARACTER}", text)


def without_colours(text: str) -> str:
    """Return a text without the colours and titles that a tool wrote for a terminal."""
    return _ESCAPE.sub("", text)


class Printed:
    """A stream that replaces what a terminal would obey."""

    def __init__(self, stream: Any) -> None:
        """``stream`` gets the text."""
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text without control characters."""
        self.stream.write(_TURNS.sub("\N{REPLACEMENT CHARACTER}", printable_text(text)))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write each text."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """Return what the stream has."""
        return getattr(self.stream, name)


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Watch what is printed."""
    out, err = (one if isinstance(one, Printed) else Printed(one) for one in (sys.stdout, sys.stderr))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield
