"""The work that a CI service gets: what each event asks for, and how it is spread over machines."""

from __future__ import annotations

from pydantic import Field

from kernel_matrix.config.model.fields import Name, Section, Tier


class Event(Section):
    """The cases that an event of the repository asks for."""

    tier: Tier = Field(default="quick", description="The tier of the cases.")
    toolchains: list[Name] | None = Field(default=None, description="Only these toolchains; all by default.")
    minutes: float | None = Field(
        default=None, gt=0, description="Machine minutes that it may take: the cases that tell most are chosen."
    )
    excluded: bool = Field(default=False, description="Try the excluded cases too, to see whether they still fail.")


class Ci(Section):
    """The spread of the work over machines, and the limits after which one counts as gone."""

    hosted: str = Field(
        default="ubuntu-24.04", description="The label of the CI service's own machines, without a GPU."
    )
    most_rows: int = Field(default=256, ge=1, le=256, description="Rows of one matrix; GitHub takes no more than 256.")
    shard_minutes: float = Field(default=15, gt=0, description="A job that takes longer is cut into shards.")
    case_seconds: float = Field(default=2, gt=0, description="The estimate of a case that was never measured.")
    queue_minutes: float = Field(default=60, gt=0, description="A job that waited longer for a machine never started.")
    silent_days: float = Field(default=7, gt=0, description="A lane without a result for longer has a grey badge.")
    read: list[str] = Field(
        default_factory=list,
        description="Files (patterns with '*') that jobs read and that lie outside of the package's source and suite.",
    )
    unread: list[str] = Field(
        default_factory=list,
        description="Files (patterns with '*') of the package's source and suite that no job reads: a change of one "
        "concerns no job.",
    )
    sentinels: list[str] = Field(
        default_factory=list, description="Cells (patterns with '*') that run whatever has changed."
    )
    events: dict[Name, Event] = Field(default_factory=dict, description="What each event asks for.")
