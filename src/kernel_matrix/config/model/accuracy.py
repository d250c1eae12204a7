"""The error budgets, and where each limit comes from."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from kernel_matrix.config.model.fields import ASSERTED, Direction, Name, OutputName, Section
from kernel_matrix.job import defaults


class _Limit(Section):
    limit: float
    source: str = Field(
        min_length=20,
        description="Where the limit comes from: a sentence, and if it was measured the command and the date.",
    )


class Factor(_Limit):
    """A factor of the noise, and where it comes from."""

    limit: float = Field(ge=1)


class Amount(_Limit):
    """An amount, and where it comes from."""

    limit: float = Field(gt=0)


class Growth(Section):
    """The limits of the growth of an error with the number of tokens, and where they come from.

    Each limit is of the slope of log(error / noise) over log(tokens).
    """

    sums: Amount = Field(description="Of an output that its operator names under 'sums'.")
    others: Amount = Field(description="Of every other output: the error of each token alone.")


def default_cap() -> Amount:
    """Return the cap of a direction for which matrix.yaml names none."""
    return Amount(limit=defaults.CAP, source=defaults.SOURCE)


class OwnBudget(Section):
    """The limits that one operator has in place of the section's, or one of its directions or outputs."""

    op: Name
    direction: Direction | None = Field(default=None, description="Only this direction; all by default.")
    output: OutputName | None = Field(default=None, description="Only this output; all by default.")
    factor: Factor | None = Field(default=None, description="In place of the section's 'factor'.")
    rounded: Factor | None = Field(default=None, description="In place of the section's 'rounded'.")
    cap: Amount | None = Field(default=None, description="In place of the direction's entry in 'caps'.")

    @model_validator(mode="after")
    def _has_a_limit(self) -> OwnBudget:
        if not self.limits:
            raise ValueError("this entry has no limit: write 'factor', 'rounded' or 'cap', each with its source")
        return self

    @property
    def limits(self) -> dict[str, Factor | Amount]:
        """The limits that it names."""
        named = {"factor": self.factor, "rounded": self.rounded, "cap": self.cap}
        return {name: rule for name, rule in named.items() if rule is not None}

    @property
    def place(self) -> str:
        """Its name in messages: ``budgets.OP``, ``budgets.OP.DIRECTION`` or ``budgets.OP.DIRECTION.OUTPUT``."""
        parts = ["budgets", self.op, self.direction or ("*" if self.output else None), self.output]
        return ".".join(part for part in parts if part)


class Accuracy(Section):
    """Error budgets, as :func:`kernel_matrix.job.accuracy.budget` makes them: ``min(cap, factor × noise)``."""

    factor: Factor = Field(description="How many times the baseline's own error a result may be off.")
    rounded: Factor = Field(description="The factor of the Frobenius error of outputs narrower than fp32.")
    ulps: Amount = Field(description="The least noise floor, in ULP of fp32 at the output's largest value.")
    caps: dict[Direction, Amount] = Field(description="Absolute error at unit scale that no budget goes beyond.")
    growth: Growth | None = Field(
        default=None,
        description="How fast an error may grow with the number of tokens. Without it the suite has a limit of its "
        "own, or measures no growth.",
    )
    misrounded: Amount | None = Field(
        default=None,
        description="The share of the elements of an output narrower than fp32 that may differ from the golden rounded "
        "once, where the baseline's share is no larger: an output that was rounded on the way has more. Without it "
        "there is no such limit.",
    )
    budgets: list[OwnBudget] = Field(
        default_factory=list,
        description="Operators, directions and outputs with limits of their own. Where several entries name the same "
        "limit of an output, the last one holds.",
    )

    def rules(self) -> dict[str, Factor | Amount]:
        """Return every limit with its source, by its place in this section, such as ``caps.forward``."""
        rules = self._general()
        rules |= {f"caps.{direction}": cap for direction, cap in self.caps.items()}
        if self.growth:
            rules |= {"growth.sums": self.growth.sums, "growth.others": self.growth.others}
        if self.misrounded:
            rules["misrounded"] = self.misrounded
        for own in self.budgets:
            rules |= {f"{own.place}.{name}": rule for name, rule in own.limits.items()}
        return rules

    def limits(self) -> dict[str, Any]:
        """Return the limits without their sources, as a job gets them."""
        limits: dict[str, Any] = {name: rule.limit for name, rule in self._general().items()}
        limits["caps"] = {direction: cap.limit for direction, cap in self.caps.items()}
        if self.growth:
            limits["growth"] = {"sums": self.growth.sums.limit, "others": self.growth.others.limit}
        if self.misrounded:
            limits["misrounded"] = self.misrounded.limit
        if self.budgets:
            limits["budgets"] = [
                own.model_dump(include={"op", "direction", "output"})
                | {name: rule.limit for name, rule in own.limits.items()}
                for own in self.budgets
            ]
        return limits

    def place_of(self, name: str, op: str, direction: str, output: str) -> str:
        """Return the place of the ``factor``, ``rounded`` or ``cap`` that holds for an output."""
        for own in reversed(self.budgets):
            concerned = own.op == op and own.direction in (None, direction) and own.output in (None, output)
            if concerned and name in own.limits:
                return f"{own.place}.{name}"
        return f"caps.{direction}" if name == "cap" else name

    def _general(self) -> dict[str, Factor | Amount]:
        return {"factor": self.factor, "rounded": self.rounded, "ulps": self.ulps}

    @classmethod
    def default(cls) -> Accuracy:
        """Return the limits of a matrix that names none."""
        return cls(
            factor=Factor(limit=defaults.FACTOR, source=defaults.SOURCE),
            rounded=Factor(limit=defaults.ROUNDED, source=defaults.SOURCE),
            ulps=Amount(limit=defaults.ULPS, source=defaults.SOURCE),
            caps={ASSERTED: default_cap()},
        )
