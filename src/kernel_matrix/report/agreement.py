"""The part of the report about who agrees with whom: its models, and how they are made from a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from kernel_matrix.config.plan import Case
from kernel_matrix.store.record import Record

if TYPE_CHECKING:  # NumPy takes long to import, and every command imports the models
    from kernel_matrix.results import agreement
    from kernel_matrix.results.ulp import Divergence

Number = int | float | str  # as in the document: JSON has no infinity


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Figures(_Model):
    """The distance of two members in one output, in ULP of its dtype, over all cases that both have."""

    median: Number = Field(description="The median over the cases of the median distance.")
    p99: Number = Field(description="The median over the cases of the 99th percentile.")
    largest: Number = Field(description="The largest distance in any case.")


class FirstDifference(_Model):
    """The first sampled position of one output of one case at which two members have other bits."""

    case: str
    output: str
    index: tuple[int, ...] = Field(description="Empty where the outputs differ outside their samples only.")
    one: Number | None
    other: Number | None


class OddOne(_Model):
    """A member that was the odd one out: in how many cases, in which outputs, and how far from the consensus."""

    cases: int
    outputs: tuple[str, ...]
    ulp: Number = Field(description="The largest median distance to the consensus, in ULP.")
    case: str
    output: str


class AgreementMember(_Model):
    """A toolchain on a target of a platform, or another variant of its kernel than the chosen one."""

    id: str
    platform: str
    target: str
    toolchain: str
    variant: str
    cases: int
    group: int = Field(description="Members of one group agree bit for bit in all cases that they share.")
    odd: OddOne | None


class AgreementPair(_Model):
    """Two members, by their places in the table. ``outputs`` are those in which they differ somewhere."""

    one: int
    other: int
    cases: int
    identical: int = Field(description="The cases in which all outputs have the same bits.")
    outputs: dict[str, Figures]
    first: FirstDifference | None = Field(description="In the output that differs most; null where none does.")


class AgreementTable(_Model):
    """All members of one operator in one direction and dtype."""

    op: str
    direction: str
    dtype: str = Field(description="Empty for an operator without such an axis.")
    members: tuple[AgreementMember, ...]
    groups: tuple[tuple[int, ...], ...]
    pairs: tuple[AgreementPair, ...]
    says: tuple[str, ...] = Field(description="The groups and the odd ones out, in sentences.")


class AgreementReport(_Model):
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
            for sentence in _odd_in_words(table.members)
        ]


def agreement_report(results: Iterable[tuple[Case, Record]]) -> AgreementReport:
    """Return the part of the report about the results that decide their cases."""
    from kernel_matrix.results import agreement

    whole = agreement.agreement(results)
    return AgreementReport(tables=tuple(map(_table, whole.tables)), refused=whole.refused, without=whole.without)


def _table(table: agreement.Table) -> AgreementTable:
    group_of = {member: number for number, group in enumerate(table.groups) for member in group}
    members = tuple(
        AgreementMember(
            id=member.id,
            platform=member.platform,
            target=member.target,
            toolchain=member.toolchain,
            variant=member.variant,
            cases=table.cases[place],
            group=group_of[place],
            odd=_odd(table.odd[place]) if place in table.odd else None,
        )
        for place, member in enumerate(table.members)
    )
    return AgreementTable(
        op=table.op,
        direction=table.direction,
        dtype=table.dtype,
        members=members,
        groups=table.groups,
        pairs=tuple(map(_pair, table.pairs)),
        says=(*_groups_in_words(table), *_odd_in_words(members)),
    )


def _odd(odd: agreement.Oddness) -> OddOne:
    return OddOne(cases=odd.cases, outputs=odd.outputs, ulp=_number(odd.ulp), case=odd.case, output=odd.output)


def _pair(pair: agreement.Pair) -> AgreementPair:
    outputs = {
        output: Figures(median=_number(median), p99=_number(p99), largest=_number(largest))
        for output, (median, p99, largest) in pair.outputs.items()
    }
    first = _first(pair.case, pair.output, pair.first) if pair.case else None
    return AgreementPair(
        one=pair.one, other=pair.other, cases=pair.cases, identical=pair.identical, outputs=outputs, first=first
    )


def _first(case: str, output: str, divergence: Divergence | None) -> FirstDifference:
    if divergence is None:
        return FirstDifference(case=case, output=output, index=(), one=None, other=None)
    one, other = exact(divergence.one), exact(divergence.other)
    return FirstDifference(case=case, output=output, index=divergence.index, one=one, other=other)


def exact(value: float) -> Number:
    """Return a value with as many digits as tell neighbours in fp32 apart; NaN and infinity as words."""
    return float(f"{value:.9g}") if math.isfinite(value) else str(value)


def _number(value: float) -> Number:
    """Return a distance with three digits, whole where it is large; infinity as a word."""
    if not math.isfinite(value):
        return str(value)
    return int(value) if value == int(value) or value >= 1000 else float(f"{value:.3g}")


def _groups_in_words(table: agreement.Table) -> list[str]:
    """Return a sentence for each group of several members."""
    if len(table.members) == 1:
        return ["There is nobody to compare it with."]
    if len(table.groups) == 1:
        return [f"All {len(table.members)} agree bit for bit."]
    sentences = [
        f"These {len(group)} agree bit for bit: {', '.join(table.members[place].id for place in group)}."
        for group in table.groups
        if len(group) > 1
    ]
    return sentences or ["No two agree bit for bit in all cases."]


def _odd_in_words(members: tuple[AgreementMember, ...]) -> list[str]:
    """Return a sentence for each odd one out."""
    return [
        f"Odd one out: {member.id}, in {member.odd.cases} of {member.cases} cases ({', '.join(member.odd.outputs)}). "
        f"Furthest from the consensus: {member.odd.ulp} ULP in {member.odd.output} of {member.odd.case}."
        for member in members
        if member.odd
    ]
