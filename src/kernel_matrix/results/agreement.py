"""Records with samples -> who agrees with whom: every pair, the groups, and the odd one out. Pure functions.

A member is a toolchain on a target of a platform, or one variant of its kernel. Members are compared case by case and
output by output, never where their inputs differ.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from kernel_matrix.config.plan import Case
from kernel_matrix.results import ulp
from kernel_matrix.results.agreement_tables import (
    AgreementMember,
    AgreementPair,
    AgreementReport,
    AgreementTable,
    Figures,
    FirstDifference,
    OddOne,
    exact,
    groups_in_words,
    odd_in_words,
    short,
)
from kernel_matrix.results.ulp import Distances
from kernel_matrix.store.record import Record, Sample

INPUTS = "inputs.sha256"


@dataclass(frozen=True, order=True)
class Member:
    """A toolchain on a target of a platform, or another variant of its kernel than the chosen one."""

    platform: str
    target: str
    toolchain: str
    variant: str = ""

    @property
    def id(self) -> str:
        """``PLATFORM/TARGET/TOOLCHAIN``, and ``@VARIANT`` for another variant than the chosen one."""
        return f"{self.platform}/{self.target}/{self.toolchain}{f'@{self.variant}' if self.variant else ''}"


@dataclass(frozen=True)
class OutputDistances:
    """One output of one case: its members, and the distances of all pairs as matrices.

    ``vote`` names the consensus and the odd ones out; it is None for fewer than three members.
    """

    case: str
    output: str
    members: tuple[Member, ...]
    samples: tuple[Sample, ...]
    identical: Distances
    median: Distances
    p99: Distances
    largest: Distances
    vote: Vote | None


def agreement(results: Iterable[tuple[Case, Record]]) -> AgreementReport:
    """Compare all records that have samples of the same case."""
    by_case: dict[tuple[str, str, str], list[tuple[Case, Record]]] = defaultdict(list)
    without: dict[str, None] = {}
    for case, record in results:
        if record.samples:
            by_case[case.cell.op, case.cell.direction, case.name].append((case, record))
        elif record.action in ("run", "emulate") and record.outcome in ("pass", "fail"):
            without[member_of(case).id] = None
    refused: list[str] = []
    tables: dict[tuple[str, str, str], list[OutputDistances]] = defaultdict(list)
    for (op, direction, name), of_case in by_case.items():
        accepted = _same_inputs(f"{op}.{direction}/{name}", of_case, refused)
        dtype = str(of_case[0][0].axes.get("dtype", ""))
        tables[op, direction, dtype] += _outputs(f"{op}.{direction}/{name}", accepted, refused)
    made = tuple(_table(*key, outputs) for key, outputs in tables.items() if outputs)
    return AgreementReport(tables=made, refused=tuple(refused), without=tuple(without))


def member_of(case: Case, variant: str = "") -> Member:
    """Return the member that a case's results speak for."""
    return Member(case.cell.platform, case.cell.target, case.cell.toolchain, variant)


def _same_inputs(key: str, results: Sequence[tuple[Case, Record]], refused: list[str]) -> list[tuple[Case, Record]]:
    """Return the results that had the common inputs, and add a sentence for each of the others.

    The inputs that most records have are right. Where two are equally frequent, no record can be compared.
    """
    digests = [record.facts.get(INPUTS, "") for _, record in results]
    first, *rest = Counter(filter(None, digests)).most_common(2) or [("", 0)]
    common = "" if rest and rest[0][1] == first[1] else first[0]
    same = []
    for (case, record), digest in zip(results, digests, strict=True):
        if common and digest == common:
            same.append((case, record))
            continue
        than = f"most have ({common[:16]})" if common else "as many others have"
        reason = f"other inputs ({digest[:16]}) than {than}" if digest else "it does not say which inputs it had"
        refused.append(f"{key}: not compared: {member_of(case).id}: {reason}")
    return same


def _outputs(key: str, results: Sequence[tuple[Case, Record]], refused: list[str]) -> Iterator[OutputDistances]:
    """Yield the distances of each output of a case."""
    by_output: dict[str, dict[Member, Sample]] = defaultdict(dict)
    noises: dict[str, list[float]] = defaultdict(list)
    for case, record in results:
        for name, sample in record.samples.items():
            output, _, variant = name.partition("@")
            by_output[output][member_of(case, variant)] = sample
            noises[output].append(_noise(record, name, sample))
    for output, samples in by_output.items():
        (form, _), *_ = Counter((sample.dtype, sample.shape) for sample in samples.values()).most_common()
        same = {member: sample for member, sample in samples.items() if (sample.dtype, sample.shape) == form}
        refused += [
            f"{key}: not compared: {member.id}: {output} is {ulp.in_words(sample)} and not {form[0]} {list(form[1])}"
            for member, sample in samples.items()
            if member not in same
        ]
        yield _distances(key, output, same, _middle(noises[output]))


def _noise(record: Record, output: str, sample: Sample) -> float:
    """Return the noise of an output as its record has it, in ULP of its largest value, without the last rounding."""
    largest = record.metrics.get(f"{output}.largest") or ulp.largest_of(sample)
    error = max(record.metrics.get(f"{output}.{name}_max_abs", 0.0) for name in ("floor", "conditioning"))
    return max(0.0, ulp.in_steps(sample.dtype, error, largest) - 0.5) if largest else 0.0


def _distances(key: str, output: str, samples: Mapping[Member, Sample], noise: float) -> OutputDistances:
    """Return the distances of all pairs of members. Each of several equal samples is measured once."""
    places: dict[bytes, int] = {}
    of_member = np.array([places.setdefault(sample.bits, len(places)) for sample in samples.values()])
    different = list({sample.bits: sample for sample in samples.values()}.values())
    figures = np.zeros((3, len(different), len(different)))
    if len(different) > 1:
        figures = ulp.quantiles(ulp.between_all(ulp.stacked(different)))
    median, p99, largest = figures[:, of_member[:, None], of_member[None]]
    digests = np.array([f"{sample.sha256}{place}" for sample, place in zip(samples.values(), of_member, strict=True)])
    narrow = different[0].dtype in ("fp16", "bf16")
    return OutputDistances(
        key,
        output,
        tuple(samples),
        tuple(samples.values()),
        digests[:, None] == digests[None],
        median,
        p99,
        largest,
        vote(median, p99, noise, narrow=narrow) if len(samples) >= 3 else None,
    )


@dataclass
class _PairSum:
    """The distances of a pair that are known so far."""

    cases: set[str] = field(default_factory=set)
    different: set[str] = field(default_factory=set)
    outputs: dict[str, list[tuple[float, float, float]]] = field(default_factory=lambda: defaultdict(list))
    worst: tuple[float, OutputDistances, int, int] | None = None

    def add(self, outputs: OutputDistances, i: int, j: int) -> None:
        """Take in one output of one case, where the pair has the places i and j."""
        self.cases.add(outputs.case)
        figures = tuple(float(matrix[i, j]) for matrix in (outputs.median, outputs.p99, outputs.largest))
        self.outputs[outputs.output].append(figures)  # type: ignore[arg-type]
        if outputs.identical[i, j]:
            return
        self.different.add(outputs.case)
        if self.worst is None or figures[2] > self.worst[0]:
            self.worst = figures[2], outputs, i, j

    def pair(self, one: int, other: int) -> AgreementPair:
        """Return the pair over all that was taken in."""
        outputs = {}
        for output, figures in self.outputs.items():
            medians, p99s, largest = zip(*figures, strict=True)
            if max(largest):  # a case in a coarser precision is no more than one case
                shown = map(short, (_middle(medians), _middle(p99s), max(largest)))
                outputs[output] = Figures(**dict(zip(Figures.model_fields, shown, strict=True)))
        cases, identical = len(self.cases), len(self.cases) - len(self.different)
        return AgreementPair(
            one=one, other=other, cases=cases, identical=identical, outputs=outputs, first=self._first()
        )

    def _first(self) -> FirstDifference | None:
        """Return where the output that differs most differs first."""
        if self.worst is None:
            return None
        _, worst, i, j = self.worst
        first = ulp.first_divergence(worst.case, worst.output, worst.samples[i], worst.samples[j])
        index, one, other = (first.index, exact(first.one), exact(first.other)) if first else ((), None, None)
        return FirstDifference(case=worst.case, output=worst.output, index=index, one=one, other=other)


def _middle(values: Sequence[float]) -> float:
    """Return the median; the higher one of two, so that infinity is not averaged."""
    return sorted(values)[len(values) // 2]


def _table(op: str, direction: str, dtype: str, outputs: Sequence[OutputDistances]) -> AgreementTable:
    """Return the table of all outputs of all cases of one operator in one direction and dtype."""
    members = list(dict.fromkeys(member for output in outputs for member in output.members))
    place = {member: number for number, member in enumerate(members)}
    sums: dict[tuple[int, int], _PairSum] = defaultdict(_PairSum)
    cases: dict[int, set[str]] = defaultdict(set)
    for output in outputs:
        for i, one in enumerate(output.members):
            cases[place[one]].add(output.case)
            for j, other in enumerate(output.members[:i]):
                first, second = sorted((place[one], place[other]))
                swapped = (first, second) != (place[other], place[one])
                sums[first, second].add(output, *((i, j) if swapped else (j, i)))
    pairs = {key: pair.pair(*key) for key, pair in sorted(sums.items())}
    groups, odd = _groups(len(members), pairs), _odd(place, outputs)
    group_of = {number: group for group, of_group in enumerate(groups) for number in of_group}
    shown = tuple(
        AgreementMember(
            id=member.id, **asdict(member), cases=len(cases[number]), group=group_of[number], odd=odd.get(number)
        )
        for number, member in enumerate(members)
    )
    return AgreementTable(
        op=op,
        direction=direction,
        dtype=dtype,
        members=shown,
        groups=groups,
        pairs=tuple(pairs.values()),
        says=(*groups_in_words(shown, groups), *odd_in_words(shown)),
    )


def _groups(members: int, pairs: Mapping[tuple[int, int], AgreementPair]) -> tuple[tuple[int, ...], ...]:
    """Return the members in groups: each agrees bit for bit with all others of its group, in all cases they share."""
    groups: list[list[int]] = []
    for member in range(members):
        for group in groups:
            of_group = [pairs.get((other, member)) for other in group]
            if all(pair is not None and pair.identical == pair.cases for pair in of_group):
                group.append(member)
                break
        else:
            groups.append([member])
    return tuple(tuple(group) for group in sorted(groups, key=len, reverse=True))


def _odd(place: Mapping[Member, int], outputs: Sequence[OutputDistances]) -> dict[int, OddOne]:
    """Return by member how often it was the odd one out."""
    by_member: dict[int, list[tuple[float, OutputDistances]]] = defaultdict(list)
    for output in outputs:
        if output.vote is None:
            continue
        for number in output.vote.odd:
            by_member[place[output.members[number]]].append((output.vote.scores[number], output))
    odd = {}
    for member, entries in sorted(by_member.items()):
        score, worst = max(entries, key=lambda entry: entry[0])
        names = dict.fromkeys(output.output for _, output in entries)
        cases = len({output.case for _, output in entries})
        odd[member] = OddOne(cases=cases, outputs=tuple(names), ulp=short(score), case=worst.case, output=worst.output)
    return odd


FACTOR = 4.0  # times the spread of the others, or the noise
# ULP that correct kernels may differ by in the median: in dtypes narrower than fp32, and in others.
NARROW, WIDE = 0.5, 4.0
_FAR = 2.0**48  # instead of infinity, so that sums of distances still tell the members apart


@dataclass(frozen=True)
class Vote:
    """The place of the consensus, every member's distance from it, and the places of the odd ones out."""

    consensus: int
    scores: tuple[float, ...]
    odd: tuple[int, ...]


def vote(median: Distances, p99: Distances, noise: float, *, narrow: bool) -> Vote:
    """Return the consensus and the odd ones out of at least three members.

    The consensus is the medoid: the member with the least sum of median distances to all others (of equals, the one
    with the least sum of 99th percentiles). A member is odd if its median distance to the consensus is more than
    ``FACTOR`` times the spread of the others, or times the noise if that is larger, plus what correct kernels may
    differ by. The spread is the median of the others' distances to the consensus. ``noise`` is the error of the
    baseline, or how far one rounding error of the inputs moves the golden, in ULP of the largest value and without the
    last rounding.

    Why so. A median distance does not change through a few elements where summands cancel, and a medoid does not move
    through a few wrong members. Correct kernels that sum in another order are a few ULP of fp32 apart, all about as
    far: hence the factor, and the constant where the others agree bit for bit. A kernel may compute in fp32 where TF32
    is allowed: the baseline's error says what is allowed, and so nobody is odd for being more exact. In a narrower
    dtype the last rounding hides the order of a sum in most elements, so that a median of one ULP is far.
    """
    sums = [(float(a), float(b)) for a, b in zip(_sums(median), _sums(p99), strict=True)]
    consensus = min(range(len(sums)), key=sums.__getitem__)
    scores = tuple(float(score) for score in median[consensus])
    odd = []
    for member, score in enumerate(scores):
        others = [other for index, other in enumerate(scores) if index not in (member, consensus)]
        limit = FACTOR * max(float(np.median(others)), noise) + (NARROW if narrow else WIDE)
        if member != consensus and score > limit:
            odd.append(member)
    return Vote(consensus, scores, tuple(odd))


def _sums(distances: Distances) -> Distances:
    sums: Distances = np.minimum(distances, _FAR).sum(axis=1)
    return sums
