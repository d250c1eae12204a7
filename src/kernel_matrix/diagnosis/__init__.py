"""What an exact error means: the cause in a sentence and the remedy, from ordered rules that are data.

A rule is shown beside the raw error and never instead of it. What no rule knows is "not known", and says so.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from ruamel.yaml import YAML

from kernel_matrix.base.versions import satisfies
from kernel_matrix.results.record import versions_of

NOT_KNOWN = "not known: no rule of src/kernel_matrix/diagnosis/rules.yaml matches this error"

Stage = Literal["build", "install", "import", "lower", "compile", "launch", "timeout", "crash", "fail"]


class Rule(BaseModel):
    """One known error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9-]+$")
    match: str = Field(min_length=5, description="A regular expression that the exact error contains.")
    unless: str = Field(default="", description="A regular expression that it must not contain.")
    stages: list[Stage] = Field(default_factory=list, description="Only at these stages; at any by default.")
    versions: list[str] = Field(default_factory=list, description="Only with these versions (PEP 508).")
    cause: str = Field(min_length=20)
    remedy: str = Field(min_length=5, description="A command or an edit.")
    link: str = ""
    recorded: str = Field(pattern=r"^(here|https?://\S+)$", description="Where the example comes from.")
    example: str = Field(min_length=10, description="The real error, word for word.")
    example_stage: Stage | Literal[""] = ""
    example_versions: dict[str, str] = Field(default_factory=dict)

    @field_validator("match", "unless")
    @classmethod
    def _a_regular_expression(cls, text: str) -> str:
        re.compile(text)
        return text

    def knows(self, text: str, stage: str, versions: Mapping[str, str]) -> bool:
        """Whether this is that error. What is not known of stage or versions does not speak against it."""
        if self.stages and stage and stage not in self.stages:
            return False
        if versions and not satisfies(self.versions, versions):
            return False
        if self.unless and re.search(self.unless, text):
            return False
        return re.search(self.match, text, re.MULTILINE) is not None


@dataclass(frozen=True)
class Diagnosis:
    """The cause and the remedy of an error, and the rule that knew it."""

    rule: str
    cause: str
    remedy: str
    link: str


@functools.cache
def rules() -> tuple[Rule, ...]:
    """All rules, in their order: the first that matches counts."""
    text = files("kernel_matrix.diagnosis").joinpath("rules.yaml").read_text(encoding="utf-8")
    return tuple(Rule.model_validate(entry) for entry in YAML(typ="safe").load(text))


def diagnose(text: str, stage: str = "", job: Mapping[str, str] | None = None) -> Diagnosis | None:
    """The first rule that knows the error; None when none does. ``job`` holds ``version.NAME`` entries."""
    return _diagnose(text, stage, tuple(sorted(versions_of(job or {}).items())))


@functools.lru_cache(maxsize=4096)  # a broken toolchain gives the same error for hundreds of cases
def _diagnose(text: str, stage: str, versions: tuple[tuple[str, str], ...]) -> Diagnosis | None:
    known = dict(versions)
    for rule in rules():
        if rule.knows(text, stage, known):
            return Diagnosis(rule.name, rule.cause, rule.remedy, rule.link)
    return None


def in_words(found: Diagnosis | None) -> str:
    """As one or two lines for people."""
    if found is None:
        return f"cause: {NOT_KNOWN}"
    return f"cause: {found.cause} [{found.rule}]\n  remedy: {found.remedy}"


def with_cause(text: str, stage: str) -> str:
    """An error, and its cause in words below it."""
    return f"{text}\n{in_words(diagnose(text, stage))}"
