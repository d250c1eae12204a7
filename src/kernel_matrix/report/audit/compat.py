"""compat.json of any size: its cells one after the other, and all that stands beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_FIRST, _LAST = '\n "cells": [\n', "\n ]"  # the list of cells in a file that is indented by one space
_BETWEEN = ",\n  {"


class Compat:
    """A compat.json whose cells are made objects of one by one: 20,000 of them at once take 400 MB."""

    def __init__(self, path: Path) -> None:
        """Read a file.

        Raises:
            ValueError: it is no compat.json in the form that the report writes.
        """
        text = path.read_text(encoding="utf-8")
        before, found, rest = text.partition(_FIRST)
        self._cells, ended, after = rest.partition(_LAST)
        if not found or not ended:
            raise ValueError("its cells are not indented by one space")
        self.rest: dict[str, Any] = json.loads(f'{before}\n "cells": []{after}')

    def cells(self) -> Iterator[dict[str, Any]]:
        """Yield the cells in their order."""
        first = 0
        while first < len(self._cells):
            end = self._cells.find(_BETWEEN, first)
            end = len(self._cells) if end < 0 else end
            yield json.loads(self._cells[first:end])
            first = end + 1
