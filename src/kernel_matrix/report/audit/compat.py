"""compat.json of any size: its cells one after the other, and all that stands beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

# What stands before and behind the cells, and behind each, in a file that is indented by one space: no text in JSON
# holds a new line, and all that a cell holds is indented by more.
_FIRST, _LAST = b'\n "cells": [\n', b"\n ]"
_END_OF_CELL = b"\n  }"


class Compat:
    """A compat.json whose cells are made objects of one by one: 20,000 of them at once take 400 MB."""

    def __init__(self, path: Path) -> None:
        """Read a file.

        Raises:
            ValueError: it is no compat.json in the form that the report writes.
        """
        self._path = path
        with self._text() as text:
            before = text.find(_FIRST)
            self._first = before + len(_FIRST)
            self._last = text.find(_LAST, self._first)
            if before < 0 or self._last < 0:
                raise ValueError("its cells are not indented by one space")
            self.rest: dict[str, Any] = json.loads(text[: self._first] + text[self._last :])

    def cells(self) -> Iterator[dict[str, Any]]:
        """Yield the cells in their order."""
        with self._text() as text:
            start = self._first
            while (end := text.find(_END_OF_CELL, start, self._last)) >= 0:
                yield json.loads(text[start : end + len(_END_OF_CELL)].decode())
                start = end + len(_END_OF_CELL) + 1  # behind the comma

    @contextmanager
    def _text(self) -> Iterator[mmap]:
        with self._path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as text:
            yield text
