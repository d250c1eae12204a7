"""The page of the morning, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernel_matrix.base.words import counted
from kernel_matrix.tools.watch.environment import NEEDED
from kernel_matrix.tools.watch.news import KINDS, News
from kernel_matrix.tools.watch.rows import Ran

_FEW = 3
_RED = ("error", "fail")


@dataclass(frozen=True)
class Page:
    """All that the page says: what each package did with each release, the news, the names that went, and when."""

    when: str
    versions: Mapping[str, str]
    results: Mapping[str, Mapping[str, Ran]]
    news: Sequence[News]
    new: frozenset[str]
    accepted: frozenset[str]
    gone: Sequence[str]
    compared: int
    differ: int
    started: int

    @property
    def broken(self) -> list[News]:
        """The breaks that nobody has accepted."""
        return [one for one in self.news if one.kind == "broke" and one.key not in self.accepted]

    @property
    def unknown(self) -> dict[str, str]:
        """The packages whose program launched nothing with the newest release, and how it ended."""
        newest = {package: list(results.values())[-1] for package, results in self.results.items() if results}
        return {package: ran.fault or "no launch" for package, ran in newest.items() if not ran.rows}

    @property
    def sentence(self) -> str:
        """The page in one sentence."""
        today = [one for one in self.broken if one.key in self.new]
        parts = [f"triton {one.since} breaks {_kernels(one)} of {one.package}" for one in today]
        if not today:
            known = f"; {len(self.broken)} breaks stand from before" if self.broken else ""
            parts = [f"Nothing broke since the last time{known}"]
        parts += [f"nothing is known of {package}: {fault}" for package, fault in self.unknown.items()]
        return f"{'; '.join(parts)} ({self.when})."


def _kernels(one: News) -> str:
    count = len({cell.partition(" on ")[0] for cell in one.cells})
    return counted(count, "kernel")


def markdown(page: Page) -> str:
    """Return the page."""
    lines = [f"# {page.sentence}", "", *_grid(page), "", *_news(page), "", *_names(page), *_warnings(page)]
    versions = ", ".join(f"{name} {page.versions[name]}" for name in ("python", *NEEDED))
    total = f"{page.compared} comparisons of a launch with the release before; {page.differ} differ in some figure"
    lines += [
        "",
        f"{total}, and {len(page.news)} lines are news. {page.started} results are of this run. With {versions}.",
    ]
    programs = [one for one in page.news if one.reproducer]
    for number, one in enumerate(programs, 1):
        title = f"{one.package} since triton {one.since}"
        lines += ["", f"## Reproducer {number}", "", f"{title}:", "", "```python", one.reproducer.rstrip(), "```"]
    return "\n".join([*lines, ""])


def _grid(page: Page) -> Iterator[str]:
    releases = list(dict.fromkeys(release for ran in page.results.values() for release in ran))
    yield f"| package | {' | '.join(f'triton {one}' for one in releases)} |"
    yield "| --- |" + " --- |" * len(releases)
    for package, results in page.results.items():
        yield f"| {package} | {' | '.join(_cell(results.get(one)) for one in releases)} |"
    yield ""
    yield "Launches that compile on all their targets, of those that were made."


def _cell(ran: Ran | None) -> str:
    if ran is None:
        return "-"
    if not ran.rows:
        return f"nothing: {ran.fault}"[:80]
    red = sum(row.outcome in _RED for row in ran.rows)
    fault = "; the program fails" if ran.fault else ""
    return f"{len(ran.rows) - red} of {len(ran.rows)}{fault}"


def _news(page: Page) -> Iterator[str]:
    yield from ("## News", "")
    if not page.news:
        yield "None: no launch changed by more than the rules let pass."
        return
    yield "| | what | package | since | cells | first | whose |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    numbers = {id(one): number for number, one in enumerate((one for one in page.news if one.reproducer), 1)}
    for one in sorted(page.news, key=lambda one: (one.key not in page.new, KINDS.index(one.kind), one.since)):
        mark = "new" if one.key in page.new else "accepted" if one.key in page.accepted else ""
        program = f" ([reproducer {numbers[id(one)]}](#reproducer-{numbers[id(one)]}))" if id(one) in numbers else ""
        first = one.first.replace("|", "\\|")
        texts = (mark, one.kind, one.package, one.since, str(len(one.cells)), f"{first}{program}", one.whose)
        yield f"| {' | '.join(texts)} |"


def _names(page: Page) -> Iterator[str]:
    if page.gone:
        yield from ("## Names that went", "", *(f"- {line}" for line in page.gone), "")


def _warnings(page: Page) -> Iterator[str]:
    """Yield what the newest release warns of, with the packages that it warns."""
    found: dict[str, list[str]] = {}
    for package, results in page.results.items():
        if results:
            newest = list(results.values())[-1]
            for text in newest.warnings:
                found.setdefault(text, []).append(package)
    if found:
        yield from (
            "## What will break",
            "",
            "Warnings of the newest release, with the packages whose kernels get them.",
            "",
        )
        yield from (f"- {text} ({', '.join(packages)})" for text, packages in found.items())
