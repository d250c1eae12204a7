"""The models of who agrees with whom, and their sentences. Every command imports them, and NumPy takes too long."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from kernel_matrix.base.models import Lenient

Number = int | float | str  # as in the document: JSON has no infinity


class Figures(Lenient):
    """The distance of two members in one output, in ULP of its dtype, over all cases that both have."""

    median: Number = Field(description="The median over the cases of the median distance.")
    p99: Number = Field(description="The median over the cases of the 99th percentile.")
    largest: Number = Field(description="The largest distance in any case.")


class FirstDifference(Lenient):
    """The first sampled position of one output of one case at which two members have other bits."""

    case: str
    output: str
    index: tuple[int, ...] = Field(description="Empty where the outputs differ outside their samples only.")
    one: Number | None
    other: Number | None


class OddOne(Lenient):
    """A member that was the odd one out: in how many cases, in which outputs, and how far from the consensus."""

    cases: int
    outputs: tuple[str, ...]
    ulp: Number = Field(description="The largest median distance to the consensus, in ULP.")
    case: str
    output: str


class AgreementMember(Lenient):
    """A toolchain on a target of a platform, or another variant of its kernel than the chosen one."""

    id: str
    platform: str
    target: str
    toolchain: str
    variant: str
    cases: int
    group: int = Field(description="Members of one group agree bit for bit in all cases that they share.")
    odd: OddOne | None


class AgreementPair(Lenient):
    """Two members, by their places in the table. ``outputs`` are those in which they differ somewhere."""

    one: int
    other: int
    cases: int
    identical: int = Field(description="The cases in which all outputs have the same bits.")
    outputs: dict[str, Figures]
    first: FirstDifference | None = Field(description="In the output that differs most; null where none does.")


class AgreementTable(Lenient):
    """All members of one operator in one direction and dtype."""

    op: str
    direction: str
    dtype: str = Field(description="Empty for an operator without such an axis.")
    members: tuple[AgreementMember, ...]
    groups: tuple[tuple[int, ...], ...]
    pairs: tuple[AgreementPair, ...]
    says: tuple[str, ...] = Field(description="The groups and the odd ones out, in sentences.")


class AgreementReport(Lenient):
    """The agreement of all results that have samples: the tables, and what was left out of them."""

    tables: tuple[AgreementTable, ...] = ()
    refused: tuple[str, ...] = Field(default=(), description="Results that could not be compared, and why.")
    without: tuple[str, ...] = Field(default=(), description="What ran and left no samples.")

    @property
    def odd(self) -> list[str]:
        """The sentences about odd ones out, each with its operator, direction and dtype."""
        return [
            f"{' '.join(filter(None, (table.op, table.direction, table.dtype)))}: {sentence}"
            for table in self.tables
            for sentence in odd_in_words(table.members)
        ]


def exact(value: float) -> Number:
    """Return a value with as many digits as tell neighbours in fp32 apart; NaN and infinity as words."""
    return float(f"{value:.9g}") if math.isfinite(value) else str(value)


def short(value: float) -> Number:
    """Return a distance with three digits, whole where it is large; infinity as a word."""
    if not math.isfinite(value):
        return str(value)
    return int(value) if value == int(value) or value >= 1000 else float(f"{value:.3g}")


def groups_in_words(members: Sequence[AgreementMember], groups: Sequence[Sequence[int]]) -> list[str]:
    """Return a sentence for each group of several members."""
    if len(members) == 1:
        return ["There is nobody to compare it with."]
    if len(groups) == 1:
        return [f"All {len(members)} agree bit for bit."]
    sentences = [
        f"These {len(group)} agree bit for bit: {', '.join(members[place].id for place in group)}."
        for group in groups
        if len(group) > 1
    ]
    return sentences or ["No two agree bit for bit in all cases."]


def odd_in_words(members: Sequence[AgreementMember]) -> list[str]:
    """Return a sentence for each odd one out."""
    return [
        f"Odd one out: {member.id}, in {member.odd.cases} of {member.cases} cases ({', '.join(member.odd.outputs)}). "
        f"Furthest from the consensus: {member.odd.ulp} ULP in {member.odd.output} of {member.odd.case}."
        for member in members
        if member.odd
    ]
