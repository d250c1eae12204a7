"""What doctor says of one thing that it looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["good", "absent", "broken"]  # absent: it is not here, and the rest works without it; broken: a fault


@dataclass(frozen=True)
class Finding:
    """One thing that doctor looked at; ``needed`` means that no platform works without it."""

    what: str
    status: Status
    text: str
    remedy: str = ""
    needed: bool = False
