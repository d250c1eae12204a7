"""Notes that stand before all results: the run still goes on, or some results are of an earlier run."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class RunNotes(BaseModel):
    """Two sentences about the run; each is empty if it does not apply."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    running: str = Field(default="", description="How many jobs of a run have ended, while it still goes on.")
    kept: str = Field(default="", description="Which results were kept from earlier runs.")
