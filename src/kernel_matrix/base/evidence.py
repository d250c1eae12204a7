"""The levels of evidence, from the least to the most."""

from __future__ import annotations

from typing import Literal

Evidence = Literal["planned", "lowered", "compiled", "told", "held", "emulated", "ran"]
EVIDENCE: tuple[Evidence, ...] = Evidence.__args__  # type: ignore[attr-defined]
