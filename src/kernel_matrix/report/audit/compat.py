"""compat.json of any size: its cells one after the other, and all that stands beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_FIRST, _LAST = ' "cells": [', " ]"  # the lines around the cells in a file that is indented by one space
_END_OF_CELL = "  }"


class Compat:
    """A compat.json whose cells are made objects of one by one: 20,000 of them at once take 400 MB."""

    def __init__(self, path: Path) -> None:
        """Read a file.

        Raises:
            ValueError: it is no compat.json in the form that the report writes.
        """
        self._path = path
        rest: list[str] = []
        is_cell = has_cells = False
        for line in self._lines():
            if is_cell:
                is_cell = not line.startswith(_LAST)
            elif line.rstrip() == _FIRST:
                is_cell = has_cells = True
                rest.append(line)
            if not is_cell:
                rest.append(line)
        if not has_cells or is_cell:
            raise ValueError("its cells are not indented by one space")
        self.rest: dict[str, Any] = json.loads("".join(rest))

    def cells(self) -> Iterator[dict[str, Any]]:
        """Yield the cells in their order."""
        lines = self._lines()
        for line in lines:
            if line.rstrip() == _FIRST:
                break
        cell: list[str] = []
        for line in lines:
            if line.startswith(_LAST):
                return
            if line.startswith(_END_OF_CELL):
                yield json.loads("".join((*cell, "}")))
                cell = []
            else:
                cell.append(line)

    def _lines(self) -> Iterator[str]:
        with self._path.open(encoding="utf-8", newline="\n") as file:
            yield from file
