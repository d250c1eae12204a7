"""What a reader has to know of the run before any result: it still goes on, or some results are older."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RunNotes:
    """``running`` says how far a run is that still goes on; ``kept`` says which results are of earlier runs."""

    running: str = ""
    kept: str = ""
