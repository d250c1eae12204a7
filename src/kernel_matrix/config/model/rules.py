"""The rules about single cases: exclusions and expectations. Each says why, and until when it holds."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kernel_matrix.config.model.fields import ScalarOrList, Section
from kernel_matrix.config.until import Until

Stage = Literal["install", "import", "lower", "compile", "launch", "timeout", "crash"]


class _Rule(Section):
    where: dict[str, ScalarOrList] = Field(min_length=1, description="platform, target, toolchain, op or an axis.")
    reason: str = Field(min_length=10)
    owner: str = Field(min_length=2, description="Who looks at it again when it ends: a person or a team.")
    link: str = Field(
        pattern=r"^(https://\S+|[\w.-]+(/[\w.-]+)*(#[\w-]+)?)$",
        description="Where more is written of it: an address (https://), or a file of this repository.",
    )
    until: Until = Field(
        description="When it ends: a date, the last day on which it holds, or a version of a distribution (PEP 508). "
        "With a version it ends where the environment of a toolchain meets it."
    )


class Exclusion(_Rule):
    """Cases that are planned and not run, why, and until when."""


class Expectation(_Rule):
    """Cases that are known to fail, and until when. When one passes, the run is red until this entry is taken out."""

    outcome: Literal["fail", "error"]
    stage: Stage | None = Field(default=None, description="The stage of an error.")
    match: str = Field(min_length=5, description="A regular expression that the exact message contains.")
    versions: list[str] = Field(default_factory=list, description="Versions that it holds for (PEP 508).")


Rule = Exclusion | Expectation
