"""Find what is news between two releases, by rules: most figures of most kernels differ between any two compilers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kernel_matrix.tools.watch.rows import Ran, Row

KINDS = ("broke", "mended", "spills more", "spills less", "registers more", "registers fewer")
_RED = ("error", "fail")
_SPILLS = 16  # bytes: fewer are no news
_REGISTERS = 8
_STEPS: Mapping[str, Sequence[int]] = {  # registers of a thread, above which fewer warps or waves have room
    "sm_": (32, 40, 48, 64, 80, 96, 128, 168, 255),
    "gfx9": (64, 72, 80, 96, 128, 168, 256, 512),
    "gfx1": (48, 64, 96, 128, 192, 256),
}
_OF_TRITON = re.compile(
    r"PassManager::run|Assertion `|LLVM ERROR|op operation|Pipeline failed|the compiler died|ptxas fatal"
)
_USUAL = {
    "error",
    "warning",
    "warnings",
    "deprecated",
    "object",
    "module",
    "attribute",
    "triton",
    "language",
    "removed",
}
_GONE = re.compile(r"has no attribute|have been removed|cannot import name|is not defined|unexpected keyword")


@dataclass(frozen=True)
class News:
    """Launches of one package that changed in the same way since a release. ``whose`` is whose fault it seems to be."""

    kind: str
    package: str
    since: str
    cells: tuple[str, ...]
    first: str
    whose: str = ""
    reproducer: str = ""

    @property
    def key(self) -> str:
        """Return what it is known by on the next day."""
        return f"{self.kind} {self.package} {self.since} {' '.join(self.cells)}"


def of_package(package: str, results: Mapping[str, Ran]) -> tuple[list[News], int, int]:
    """Return the news of a package, and how many launches were compared and how many of these differ in any figure.

    ``results`` are by release, the oldest first.
    """
    found: dict[tuple[str, str], list[tuple[Row, Row]]] = defaultdict(list)
    compared = differ = 0
    for (_, before), (release, now) in pairwise(results.items()):
        old = {_place(row): row for row in before.rows}
        for row in now.rows:
            earlier = old.get(_place(row))
            if earlier is None:
                continue
            compared, differ = compared + 1, differ + (row != earlier)
            if kind := _kind(earlier, row):
                found[release, kind].append((earlier, row))
    news = [_news(package, release, kind, pairs, results) for (release, kind), pairs in found.items()]
    return sorted(news, key=lambda one: (KINDS.index(one.kind), one.since)), compared, differ


def _place(row: Row) -> tuple[str, str, str]:
    return row.kernel, row.target, row.launch


def _kind(old: Row, new: Row) -> str:
    """Return what kind of news a launch is; empty for none."""
    if (old.outcome in _RED) != (new.outcome in _RED):
        return "broke" if new.outcome in _RED else "mended"
    if new.outcome in _RED or "unavailable" in (old.outcome, new.outcome):
        return ""
    few, many = sorted((old.spills, new.spills))
    if many - few >= _SPILLS and many >= 2 * few:
        return "spills more" if new.spills > old.spills else "spills less"
    if _step(new) != _step(old) and abs(new.registers - old.registers) >= _REGISTERS:
        return "registers more" if new.registers > old.registers else "registers fewer"
    return ""


def _step(row: Row) -> int:
    steps = next((steps for name, steps in _STEPS.items() if row.target.startswith(name)), ())
    return sum(row.registers > one for one in steps)


def _news(package: str, release: str, kind: str, pairs: Sequence[tuple[Row, Row]], results: Mapping[str, Ran]) -> News:
    old, new = pairs[0]
    cells = tuple(sorted({f"{row.kernel.rpartition('.')[2]} on {row.target}" for _, row in pairs}))
    changes = {
        "broke": f"{_name(new)}: {new.message or new.outcome}",
        "mended": f"{_name(new)}: {old.message or old.outcome}",
        "spills": f"{_name(new)}: {old.spills} -> {new.spills} bytes",
        "registers": f"{_name(new)}: {old.registers} -> {new.registers}",
    }
    whose = _whose(new, before(release, results)) if kind == "broke" else ""
    programs = results[release].reproducers or {}
    program = next((programs[key] for key in map(_key, (row for _, row in pairs)) if key in programs), "")
    return News(
        kind, package, release, cells, changes[kind.partition(" ")[0]], whose, program if kind == "broke" else ""
    )


def _key(row: Row) -> str:
    from kernel_matrix.tools.watch.rows import key_of

    return key_of(row)


def _name(row: Row) -> str:
    return f"{row.kernel.rpartition('.')[2]} on {row.target}"


def before(release: str, results: Mapping[str, Ran]) -> Iterator[Ran]:
    """Yield what the releases before one did."""
    for name, ran in results.items():
        if name == release:
            return
        yield ran


def _whose(row: Row, earlier: Iterable[Ran]) -> str:
    """Return whose fault an error seems to be: Triton's, the package's that was warned, or open."""
    if row.stage in ("timeout", "crash") or _OF_TRITON.search(row.message):
        return "Triton: a pass of its compiler fails"
    if row.outcome == "fail":
        return "open: the numbers are others"
    if _GONE.search(row.message):
        words = _words(row.message)
        warned = [text for ran in earlier for text in ran.warnings if len(words & _words(text)) > 1]
        return (
            f"the package: earlier releases warned: {warned[0]}" if warned else "Triton: a name went without a warning"
        )
    return "open"


def _words(text: str) -> set[str]:
    """Return the longer words of a text, also those in names."""
    return set(re.findall(r"[a-z]{5,}", text.lower())) - _USUAL


def lines_of(news: Iterable[News]) -> Iterator[str]:
    """Yield a line for each of the news, the most urgent first."""
    for one in sorted(news, key=lambda one: (KINDS.index(one.kind), one.since, one.package)):
        whose = f" ({one.whose})" if one.whose else ""
        yield f"{one.kind} since triton {one.since}: {one.package}, {len(one.cells)} cells: {one.first}{whose}"
