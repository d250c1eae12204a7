"""compat.json of any size: its cells one after the other, and everything else in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

# What stands before and behind the cells, and behind each, in a file that is indented by one space: no text in JSON
# holds a new line, and all that a cell holds is indented by more.
_FIRST, _LAST = b'\n "cells": [\n', b"\n ]"
_END_OF_CELL = b"\n  }"
_BLOCK = 2**20  # bytes that are read at once


class Compat:
    """A compat.json whose cells are made objects of one by one: 20,000 of them at once take 400 MB."""

    def __init__(self, path: Path) -> None:
        """Read a file.

        Raises:
            ValueError: it is no compat.json in the form that the report writes.
        """
        self._path = path
        with path.open("rb") as file:
            self._first = _behind(file, _FIRST, 0)
            self._last = _behind(file, _LAST, self._first) - len(_LAST)
            file.seek(0)
            before = file.read(self._first)
            file.seek(self._last)
            self.rest: dict[str, Any] = json.loads(before + file.read())

    def cells(self) -> Iterator[dict[str, Any]]:
        """Yield the cells in their order."""
        with self._path.open("rb") as file:
            file.seek(self._first)
            left, rest = self._last - self._first, b""
            while left > 0:
                block = file.read(min(_BLOCK, left))
                left -= len(block)
                *whole, rest = (rest + block).split(_END_OF_CELL)
                for text in whole:
                    yield json.loads(text.lstrip(b",\n").decode() + "}")


def _behind(file: BinaryIO, wanted: bytes, start: int) -> int:
    """Return the place behind the first of some bytes from a place on.

    Raises:
        ValueError: they are not there.
    """
    file.seek(start)
    rest, place = b"", start
    while block := file.read(_BLOCK):
        found = (rest + block).find(wanted)
        if found >= 0:
            return place - len(rest) + found + len(wanted)
        place += len(block)
        rest = (rest + block)[-len(wanted) :]
    raise ValueError("its cells are not indented by one space")
