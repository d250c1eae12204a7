"""Make tables of the docs from kept results of the benchmark: medians of all contenders, and shares of the floor."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kernel_matrix.store import names
from kernel_matrix.store.query import ask

Shape = tuple[int, int]  # tokens, hidden; a hidden of 0 stands for an operator that has none
Row = tuple[str, ...]

LAYERS = ("read.forward", "read.backward", "layer.step", "mhc_post.forward", "mhc_post.backward")
DECODE = ("read.forward", "mhc_post_pre.forward")
_BOTH = ("forward", "backward")
OPS = {  # of each table of medians
    "layers": LAYERS,
    "sinkhorn": ("sinkhorn.forward", "sinkhorn.backward"),
    "norm": tuple(f"{op}.{way}" for way in _BOTH for op in ("mhc_pre", "mhc_pre_norm", "mhc_pre_norm_fp8")),
    "single-pass": tuple(f"{op}.{way}" for way in _BOTH for op in ("mhc_single_pass", "mhc_single_pass_fp8")),
    "few-tokens": DECODE,
    "widths": DECODE[:1],
}
FEW = 128  # tokens that are in the table of few tokens
AHEAD = 1.01  # a contender is ahead of the others where these take so much of its time
# The shares of the floor that the package wants of its toolchain ``fastest``, in percent, in the order of the shapes.
GOALS = {
    "read.forward": (45, 70, 85, 80),
    "read.backward": (40, 55, 60, 60),
    "mhc_post.forward": (88, 95, 97, 98),
    "mhc_post.backward": (86, 95, 98, 98),
    "layer.step": (40, 60, 75, 80),
}
_QUESTION = """
    SELECT toolchain, op || '.' || direction, name, figures FROM cases JOIN (SELECT run, started FROM jobs) USING (run)
    WHERE starts_with("case", 'bench:') AND outcome = 'pass'
    QUALIFY started = max(started) OVER (PARTITION BY op, direction, name) ORDER BY "case", run
"""
_SHAPE = re.compile(r"tokens(\d+)(?:-streams\d+)?(?:-hidden(\d+))?")


class Case(NamedTuple):
    """An operator at a shape: the median time in µs of each contender, and the shares of the floor."""

    times: dict[str, float]
    shares: dict[str, float]


_NONE = Case({}, {})


def read(folder: Path) -> dict[tuple[str, Shape], Case]:
    """Return the cases of the kept results in a folder, by operator and shape: of each shape those of the last run.

    Raises:
        ValueError: the folder has no result of the benchmark, or two of one toolchain at one shape.
    """
    cases: dict[tuple[str, Shape], Case] = {}
    for toolchain, op, name, figures in ask(_QUESTION, [folder]).rows if names.find(folder) else ():
        if (found := _SHAPE.match(name)) is None:
            continue
        case = cases.setdefault((op, (int(found[1]), int(found[2] or 0))), Case({}, {}))
        if toolchain in case.times:
            raise ValueError(f"{folder} has two results of {toolchain} for {op} at {name}")
        case.times.update({toolchain: figures["bench.median_us"], **_rivals(figures)})
        case.shares[toolchain] = figures["bench.floor_share"]
    if not cases:
        raise ValueError(f"{folder} has no result of the benchmark")
    return cases


def _rivals(figures: Mapping[str, float]) -> dict[str, float]:
    """Return the medians of the rivals that are timed for every toolchain, without the package's own kernels."""
    names = [key.removeprefix("bench.ratio.") for key in figures if key.startswith("bench.ratio.")]
    return {name: figures[f"bench.{name}.median_us"] for name in names if name not in ("eager", "fastest", "triton")}


def times(
    cases: Mapping[tuple[str, Shape], Case], ops: Collection[str], *, few: bool, widths: bool = False
) -> tuple[Row, list[Row]]:
    """Return the heads of the columns, and a line for each operator and contender: its medians in µs.

    ``few`` chooses the shapes of few tokens, one hidden size after the other: those sizes that have the most numbers of
    tokens, or with ``widths`` all sizes, and the numbers that all have. Without it the other shapes are chosen; a
    column is empty where the operator has no median at its shape. A median is bold where its contender is ahead: a
    toolchain of the package of all rivals, a rival of all toolchains.
    """
    lines: list[Row] = []
    heads: Row = ()
    many = sorted({shape for name, shape in cases if name in ops and shape[0] > FEW})
    for op in ops:
        for words, chosen in _of_few_tokens(cases, op, widths=widths) if few else [("", many)]:
            first = f"`{op}`{words}"
            heads = ("", "contender", *(_head(shape, few=few) for shape in chosen))
            of_op = [cases.get((op, shape), _NONE) for shape in chosen]
            for number, name in enumerate(_contenders(of_op)):
                lines.append((first if number == 0 else "", f"`{name}`", *(_median(case, name) for case in of_op)))
    return heads, lines


def _of_few_tokens(
    cases: Mapping[tuple[str, Shape], Case], op: str, *, widths: bool
) -> Iterator[tuple[str, list[Shape]]]:
    """Yield each hidden size of an operator's table of few tokens, in words, with its shapes."""
    shapes = sorted(shape for name, shape in cases if name == op and shape[0] <= FEW)
    counts = {hidden: {tokens for tokens, other in shapes if other == hidden} for _, hidden in shapes}
    common = set.intersection(*counts.values()) if widths else max(counts.values(), key=len, default=set())
    for hidden in sorted(each for each in counts if counts[each] >= common):
        yield f", hidden {hidden}", [shape for shape in shapes if shape[1] == hidden and shape[0] in common]


def _head(shape: Shape, *, few: bool) -> str:
    tokens, hidden = shape
    return f"{tokens}" if few or not hidden else f"({tokens}, {hidden})"


def _contenders(cases: Iterable[Case]) -> list[str]:
    """Return all contenders, the package's own first."""
    own = sorted({name for case in cases for name in case.shares})
    return [*own, *sorted({name for case in cases for name in case.times} - {*own})]


def _median(case: Case, name: str) -> str:
    """Return the median of a contender as text; empty where it was not timed."""
    if name not in case.times:
        return ""
    own = min(case.times[toolchain] for toolchain in case.shares)
    rivals = [time for rival, time in case.times.items() if rival not in case.shares]
    time = case.times[name]
    is_ahead = time == own if name in case.shares else time == min(rivals)
    others = rivals if name in case.shares else [own]
    text = f"{time:.1f}" if time < 100 else f"{time:.0f}"
    return f"**{text}**" if is_ahead and others and min(others) > AHEAD * time else text


def goals(cases: Mapping[tuple[str, Shape], Case]) -> tuple[Row, list[Row]]:
    """Return the heads of the columns, and a line for each operator with a goal: goals and shares of the floor."""
    lines = []
    shapes = sorted(shape for op, shape in cases if op == LAYERS[0] and shape[0] > FEW)
    for op, wanted in GOALS.items():
        reached = [round(100 * cases[op, shape].shares["fastest"]) for shape in shapes]
        pairs = zip(wanted, reached, strict=True)
        lines.append((f"`{op}`", *(f"{share} %{'' if share >= goal else f' (goal {goal})'}" for goal, share in pairs)))
    return ("", *(_head(shape, few=False) for shape in shapes)), lines
