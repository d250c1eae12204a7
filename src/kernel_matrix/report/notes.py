"""What a reader has to know of the run before any result: it still goes on, or some results are older."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class RunNotes(BaseModel):
    """Two sentences about the run; each is empty if there is nothing to tell."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    running: str = Field(default="", description="How far a run is that still goes on.")
    kept: str = Field(default="", description="Which results were kept from earlier runs.")
