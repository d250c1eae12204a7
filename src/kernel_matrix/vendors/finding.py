"""The findings of doctor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["good", "absent", "broken"]  # absent: not on this machine, and the rest works without it


@dataclass(frozen=True)
class Finding:
    """One thing that doctor looked at; ``needed`` means that no platform works without it."""

    what: str
    status: Status
    text: str
    remedy: str = ""
    needed: bool = False
