"""A verdict, for people and for programs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

SCHEMA = 1
NOTHING = "none"  # the word of an option that names steps
RIGHT, WRONG, HACK, UNDECIDED = "right", "wrong", "hack", "not decided"
UNUSABLE = "unusable"  # a line that nobody could judge
STATUS: Mapping[str, int] = {RIGHT: 0, WRONG: 1, HACK: 1, UNDECIDED: 3}


@dataclass
class Verdict:
    """The answer about one candidate.

    ``reason`` is the first line's sentence. ``undecided`` is what is not decided of a right candidate. ``beyond`` is
    what is wrong where the task does not ask: other strides, no rows. ``targets`` has the evidence for each that is
    not here, and the figures of the kernels there.
    """

    verdict: str = RIGHT
    kind: str = ""
    reason: str = ""
    evidence: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    cases: list[dict[str, Any]] = field(default_factory=list)
    not_tried: list[str] = field(default_factory=list)
    beyond: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    operators: dict[str, float] = field(default_factory=dict)
    counterexample: dict[str, Any] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    mutants: dict[str, Any] = field(default_factory=dict)
    targets: dict[str, dict[str, Any]] = field(default_factory=dict)
    program: str = ""
    form: str = ""
    device: str = ""
    sandbox: dict[str, Any] = field(default_factory=dict)
    task: str = ""
    candidate: str = ""
    cpu_seconds: dict[str, float] = field(default_factory=dict)

    @property
    def status(self) -> int:
        """The exit status."""
        return STATUS[self.verdict]

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it; ``verdict.schema.json`` describes it."""
        return {"schema": SCHEMA, **asdict(self), "status": self.status}


def digest(text: str | bytes) -> str:
    """Return what names a text in a verdict."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()
