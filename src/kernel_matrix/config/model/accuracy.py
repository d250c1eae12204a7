"""The error budgets, and where each limit comes from."""

from __future__ import annotations

from pydantic import Field

from kernel_matrix.config.model.fields import ASSERTED, Direction, Section
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
    others: Amount = Field(description="Of every other output: that of each token alone.")


def default_cap() -> Amount:
    """Return the cap of a direction for which matrix.yaml names none."""
    return Amount(limit=defaults.CAP, source=defaults.SOURCE)


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

    def rules(self) -> dict[str, Factor | Amount]:
        """Return every limit with its source, by its place in this section, such as ``caps.forward``."""
        rules: dict[str, Factor | Amount] = {"factor": self.factor, "rounded": self.rounded, "ulps": self.ulps}
        rules |= {f"caps.{direction}": cap for direction, cap in self.caps.items()}
        if self.growth:
            rules |= {"growth.sums": self.growth.sums, "growth.others": self.growth.others}
        return rules

    def limits(self) -> dict[str, float | dict[str, float]]:
        """Return the limits without their sources, as a job gets them."""
        limits: dict[str, float | dict[str, float]] = {}
        for place, rule in self.rules().items():
            section, _, name = place.rpartition(".")
            if section:
                group = limits.setdefault(section, {})
                assert isinstance(group, dict)
                group[name] = rule.limit
            else:
                limits[name] = rule.limit
        return limits

    @classmethod
    def default(cls) -> Accuracy:
        """Return the limits of a matrix that names none."""
        return cls(
            factor=Factor(limit=defaults.FACTOR, source=defaults.SOURCE),
            rounded=Factor(limit=defaults.ROUNDED, source=defaults.SOURCE),
            ulps=Amount(limit=defaults.ULPS, source=defaults.SOURCE),
            caps={ASSERTED: default_cap()},
        )
