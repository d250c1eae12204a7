"""The models of files: one kind refuses what it does not know, the other passes it over."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A part of a file whose form is ours: an unknown key is an error. Nothing changes it."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Lenient(BaseModel):
    """A part of a file that another version may have written: an unknown key is passed over. Nothing changes it."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)
