"""The text of a kernel's source: one translation unit, with the headers next to this module and its constants in it."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

import torch

_FOLDER = Path(__file__).parent
_INCLUDE = re.compile(r'^#include "(\w+\.h)"\n', re.MULTILINE)
_ELEMENTS = {torch.float32: "float", torch.bfloat16: "bf16", torch.float16: "fp16"}


@dataclass(frozen=True)
class Source:
    """The kernels of ``operator`` for a number of streams, and a dtype where the operator has several.

    ``file`` is a file of the operator with another name than the operator's, and ``constants`` are further constants.
    ``targets`` has pairs of a target and what the compiler calls it: ``sm_90a`` has instructions that later GPUs lack.
    """

    operator: str
    streams: int
    dtype: torch.dtype = torch.float32
    file: str | None = None
    constants: tuple[tuple[str, int], ...] = ()
    targets: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """Return the text; it needs no other file. Every part is named by its file, without a folder."""
        given = {"STREAMS": self.streams, "ELEMENT": _ELEMENTS[self.dtype], **dict(self.constants)}
        constants = "".join(f"#define {name} {value}\n" for name, value in given.items())
        return constants + whole_text(_FOLDER / self.operator / f"{self.file or self.operator}.cu")

    def target_for_compiler(self, target: str) -> str:
        """Return what the compiler calls the target."""
        return dict(self.targets).get(target, target)


@functools.cache
def whole_text(path: Path) -> str:
    """Return the text of a file with the text of each header of this backend in the place of its first ``#include``."""
    return _expanded(path, set())


def _expanded(path: Path, seen: set[str]) -> str:
    text = path.read_text(encoding="utf-8")
    parts, end = [f'#line 1 "{path.name}"\n'], 0
    for match in _INCLUDE.finditer(text):
        parts.append(text[end : match.start()])
        if match[1] not in seen:
            seen.add(match[1])
            parts.append(_expanded(_FOLDER / "include" / match[1], seen))
        end = match.end()
        parts.append(f'#line {text.count(chr(10), 0, end) + 1} "{path.name}"\n')
    return "".join([*parts, text[end:]]).replace("#pragma once\n", "\n")
