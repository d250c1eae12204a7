"""The code that a compiler made for a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Artifact:
    """The code that a compiler made: its kind (``cubin``, ``hsaco``, ``hip-source``), its bytes, what it needs."""

    kind: str
    code: bytes
    resources: Mapping[str, float] = field(default_factory=dict)
