"""The sites of two runs -> the Markdown of one comment: what a change did to which vendor.

All foreign text stands in code spans: there it is no mention, no link and no HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kernel_matrix.adopt.sites import Report, Site
from kernel_matrix.base.words import counted
from kernel_matrix.report.difference import WORKS, Difference, LessExact, Transition
from kernel_matrix.report.runs import compare_runs
from kernel_matrix.results.states import RED
from kernel_matrix.results.trend import Slower
from kernel_matrix.store.record import BENCH
from kernel_matrix.vendors.registry import vendors

MOST = 60_000  # characters: GitHub refuses a comment of more than 65,536
_NAMED = (8, 3, 1, 0)  # cells of a kind that a line names: fewer where the comment would be too long
_MOST_VENDORS = 40
_MOST_OF_A_TEXT = 160  # characters

Change = Transition | LessExact | Slower
# What happened to cells: to one, and to several.
KINDS = {
    "red": ("became red", "became red"),
    "mended": ("was mended", "were mended"),
    "gone": ("no longer ran", "no longer ran"),
    "less exact": ("is less exact", "are less exact"),
    "slower": ("is slower", "are slower"),
    "known": ("fails now as matrix.yaml expects", "fail now as matrix.yaml expects"),
    "otherwise": ("changed otherwise", "changed otherwise"),
    "new": ("is new", "are new"),
}


@dataclass
class OfVendor:
    """The changes of a vendor's cells by kind and cell, and how many cells are as before or were not asked for."""

    changes: dict[str, dict[str, Change]] = field(default_factory=dict)
    same: int = 0
    not_asked: int = 0


def marker(name: str) -> str:
    """Return the hidden line by which a later run finds the comment."""
    return f"<!-- kernel-matrix comment: {name} -->"


def comment(before: Site | None, now: Site | None, *, name: str, page: str = "") -> str:
    """Return the comment. Where a run has no site, it says what is not known."""
    text = ""
    for most in _NAMED:
        text = "\n".join(_lines(before, now, page, most))
        if len(text) <= MOST:
            break
    return f"{text}\n\n{marker(name)}\n"


def _lines(before: Site | None, now: Site | None, page: str, most: int) -> Iterator[str]:
    link = f" [Its run]({page}) has the whole page." if page else ""
    if now is None:
        yield f"**Nothing is known of what this change did: its run left no page.**{link}"
        return
    if before is None:
        yield "**Nothing is known of what this change did: there is no earlier page to compare with.**\n"
        yield from _present(now.report)
        yield f"\n{counted(len(now.cells), 'cell')} were asked for.{link}"
        return
    found = compare_runs(before.side, now.side, whole=False)
    of_vendors = by_vendor(found, before, now)
    yield f"**{_sentence(of_vendors.values())}**\n"
    for vendor, changes in list(of_vendors.items())[:_MOST_VENDORS]:
        yield f"- {_title(vendor)}: {_line(changes, most)}"
    if len(of_vendors) > _MOST_VENDORS:
        yield f"- and {len(of_vendors) - _MOST_VENDORS} more vendors"
    yield f"\nCompared with {code(found.base)}.{link}"
    if unknown := list(_unknown(found, before, now)):
        yield "\nNot known:\n"
        yield from (f"- {sentence}" for sentence in unknown)


def by_vendor(found: Difference, before: Site, now: Site) -> dict[str, OfVendor]:
    """Return the changes of each vendor, in the order of the platforms."""
    titles = {**_titles(before.report), **_titles(now.report)}
    cells = {**now.cells, **before.cells}
    order = [*titles, *map(_platform, cells)]
    present = set(map(_platform, cells))
    made = {titles.get(name, name): OfVendor() for name in order if name in present}
    changed = set()
    for kind, ones in _kinds(found, _asked_less(before, now)).items():
        for one in ones:
            cell = one.cell.removeprefix(BENCH)
            vendor = made.setdefault(titles.get(_platform(cell), _platform(cell)), OfVendor())
            vendor.changes.setdefault(kind, {}).setdefault(cell, one)
            changed.add(cell)
    for cell in cells.keys() - changed:
        vendor = made[titles.get(_platform(cell), _platform(cell))]
        vendor.same += cell in now.cells
        vendor.not_asked += cell not in now.cells
    return made


def _kinds(found: Difference, asked_less: set[str]) -> dict[str, Sequence[Change]]:
    """Return the changes by kind. What was asked for fewer cases than before is not called mended."""
    gone = [one for one in found.gone if one.state not in RED]
    lost = {one.cell for one in gone}
    left = [one for one in (*found.no_longer_red, *found.other) if one.cell not in lost]
    mended = [one for one in found.no_longer_red if one.state in WORKS and one.cell not in lost]
    works = {one.cell for one in mended}
    rest = [one for one in left if one.cell not in works]
    return {
        "red": found.newly_red,
        "mended": [one for one in mended if one.cell not in asked_less],
        "gone": gone,
        "less exact": found.less_exact,
        "slower": found.slower,
        "known": [one for one in rest if one.state == "known"],
        "otherwise": [one for one in rest if one.state != "known"],
        "new": found.new,
    }


def _asked_less(before: Site, now: Site) -> set[str]:
    """Return the cells for which this run was asked for fewer cases than the earlier one."""
    both = before.cells.keys() & now.cells.keys()
    return {name for name in both if now.cells[name].planned < before.cells[name].planned}


def _unknown(found: Difference, before: Site, now: Site) -> Iterator[str]:
    """Yield a sentence for each thing that the two runs do not say."""
    less, more = _asked_less(before, now), _asked_less(now, before)
    if count := sum(one.cell in less and one.state in WORKS for one in found.no_longer_red):
        yield f"{counted(count, 'cell')} of the earlier run's red cells: fewer of their cases were asked for here."
    if count := sum(one.cell in more for one in found.newly_red):
        yield f"Since when {counted(count, 'cell')} are red: the earlier run was asked for fewer of their cases."
    if count := len(now.report.problems):
        yield f"{counted(count, 'result')} of this run: they could not be read, or were refused."
    yield from found.notes


def _sentence(of_vendors: Iterable[OfVendor]) -> str:
    """Return what changed in one sentence."""
    made = list(of_vendors)
    counts = {kind: sum(len(one.changes.get(kind, ())) for one in made) for kind in KINDS}
    parts = [(count, KINDS[kind][count > 1]) for kind, count in counts.items() if count]
    if not parts:
        return f"Nothing changed in {counted(sum(one.same for one in made), 'cell')}."
    (first, words), *rest = parts
    return ", ".join([f"With this change {counted(first, 'cell')} {words}", *(f"{n} {text}" for n, text in rest)]) + "."


def _line(of_vendor: OfVendor, most: int) -> str:
    """Return what happened to a vendor's cells."""
    if not of_vendor.changes:
        if of_vendor.same:
            return f"nothing changed in {counted(of_vendor.same, 'cell')}."
        return f"not asked for; the earlier run had {counted(of_vendor.not_asked, 'cell')}."
    parts = [_part(KINDS[kind], list(ones.values()), most) for kind, ones in of_vendor.changes.items()]
    return " ".join([*parts, *([f"As before: {of_vendor.same}."] if of_vendor.same else [])])


def _part(words: tuple[str, str], ones: Sequence[Change], most: int) -> str:
    """Return how many cells changed in a way, with the first of them."""
    named = [_words(one) for one in ones[:most]]
    if named and len(ones) > most:
        named.append(f"and {len(ones) - most} more")
    return f"**{len(ones)} {words[len(ones) > 1]}**{': ' if named else ''}{'; '.join(named)}."


def _words(change: Change) -> str:
    """Return a change of a cell."""
    if isinstance(change, LessExact):
        figure = code(f"{change.dtype} {change.output} {change.figure}")
        return f"{code(change.cell)} {figure} {change.before:.3g} → {change.after:.3g}, over {change.limit:.3g}"
    if isinstance(change, Slower):
        return f"{code(f'{change.cell}/{change.case}')} {change.before:.2f} × → {change.after:.2f} ×"
    states = change.after if change.before == "not planned" else f"{change.before} → {change.after}"
    reason = change.reason.strip().partition("\n")[0]
    return f"{code(change.cell)} {code(states)}{f', {code(reason)}' if reason else ''}"


def _present(report: Report) -> Iterator[str]:
    """Yield a line for each vendor of a run that is compared with none."""
    titles = _titles(report)
    red: dict[str, list[bool]] = {}
    for cell in report.cells:
        red.setdefault(titles.get(_platform(cell.id), _platform(cell.id)), []).append(cell.state in RED)
    for vendor, states in list(red.items())[:_MOST_VENDORS]:
        yield f"- {_title(vendor)}: {sum(states)} of {counted(len(states), 'cell')} red."


def _titles(report: Report) -> Mapping[str, str]:
    """Return the name of each platform's vendor."""
    return {one.name: one.vendor_title or one.title or one.name for one in report.platforms}


def _title(name: str) -> str:
    """Return the name of a vendor in bold if the harness knows it; any other is foreign text."""
    return f"**{name}**" if name in {vendor.title for vendor in vendors().values()} else code(name)


def _platform(cell: str) -> str:
    return cell.partition("/")[0]


def code(text: object, most: int = _MOST_OF_A_TEXT) -> str:
    """Return a text as a code span of one line, which nothing in the text ends; a long one is cut."""
    printable = "".join(char if char.isprintable() else " " for char in str(text)[: 4 * most])
    line = " ".join(printable.split()).replace("`", "'")
    line = line if len(line) <= most else f"{line[: most - 1]}…"
    return f"`{line}`" if line else "` `"
