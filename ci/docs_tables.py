"""Write the tables of the docs that repeat data: matrix.yaml, headers of probes, kept results, meanings of states.

A table stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``. ``ci/nox -s docs`` writes all of them;
with ``--check`` nothing is written, and a table that is out of date ends with status 1. A large table stands on the
documentation site alone: the page has the line ``<!-- on the site: NAME -->``.
"""

from __future__ import annotations

import csv
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import bench_tables
import calibration_tables
import sweep_tables
from packaging.version import Version
from ruamel.yaml import YAML
from sweep_tables import escaped

from kernel_matrix.ci import cost, services
from kernel_matrix.ci.event_plan import Known, make_row_plan
from kernel_matrix.config.load import load
from kernel_matrix.config.model import Matrix, Rule, as_list
from kernel_matrix.config.plan import plan
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.machines.rows import estimate
from kernel_matrix.probes.expected import judge_all
from kernel_matrix.probes.probe import Probe, Window, load_probes
from kernel_matrix.report import checks
from kernel_matrix.report.sentences import MEANING
from kernel_matrix.results import history
from kernel_matrix.store import schema, views
from kernel_matrix.store.load import collect
from kernel_matrix.store.record import Record, is_probe_record, versions_of

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
CALIBRATIONS = ROOT / "docs" / "calibration"
CHECKS = ROOT / "docs" / "checks"
CACHES = ROOT / "tests" / "toolchains" / "compile_caches.yaml"
MUTANTS = ROOT / "tests" / "package" / "mutants"
PAGES = (
    *("README.md", "CONTRIBUTING.md"),
    *("docs/containers.md", "docs/history.md", "docs/limits.md", "docs/runners.md", "docs/sanitizers.md"),
    *("docs/speed.md", "docs/versions.md", "docs/caches.md"),
)

# A probe's verdicts by version, the oldest version first.
Verdicts = Mapping[str, str]

_BLOCK = re.compile(r"^(<!-- generated: (.+?) -->)\n.*?^(<!-- end -->)$", re.DOTALL | re.MULTILINE)

_ON_SITE = re.compile(r"^<!-- on the site: (.+?) -->$", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """Write the tables of all pages, or check them; return the exit status."""
    check = list(arguments) == ["--check"]
    old = [page for page in PAGES if page_is_old(ROOT / page, write=not check)]
    for page in old:
        print(f"{page}: a generated table is out of date. Write it: ci/nox -s docs" if check else f"wrote {page}")
    return 1 if check and old else 0


def page_is_old(path: Path, *, write: bool) -> bool:
    """Return whether a table of the page differs from its data; with ``write``, write the page as it should be."""
    text = path.read_text(encoding="utf-8")
    new = renewed(text)
    if write and new != text:
        path.write_text(new, encoding="utf-8")
    return new != text


def renewed(text: str) -> str:
    """Return the page with every table between markers made from its data."""
    return _BLOCK.sub(lambda block: f"{block[1]}\n{table(block[2])}{block[3]}", text)


def filled(text: str) -> str:
    """Return the page with the tables that only the documentation site has."""
    return _ON_SITE.sub(lambda line: table(line[1]), text)


def table(name: str) -> str:
    """Return the table of that name.

    Raises:
        ValueError: there is no such table.
    """
    kind, _, argument = name.partition(" ")
    if kind not in TABLES:
        raise ValueError(f"there is no generated table '{name}'; there are {', '.join(TABLES)}")
    return TABLES[kind](argument)


def events(_: str) -> str:
    """Return what each event asks for, from ``ci.events`` of matrix.yaml."""
    lines = [
        (
            f"`{name}`",
            event.tier,
            ", ".join(f"`{one}`" for one in event.toolchains) if event.toolchains else "all",
            "tried too" if event.excluded else "left out",
            f"{event.minutes:g}" if event.minutes else "no limit",
        )
        for name, event in load(ROOT / "matrix.yaml").ci.events.items()
    ]
    return markdown(("`ci.events`", "tier", "toolchains", "excluded cases", "machine minutes"), lines)


# Minutes on two shared cores (docs/containers.md): making the image of a platform, saving one, and loading one with the
# two cases that were run there. What GitHub's network takes to carry an image is not known here.
IMAGE_MINUTES = {"cpu-llvm": 6.8, "cuda": 5.4, "rocm": 6.4, "intel": 10.5, "webgpu": 8.6, "tpu": 5.4, "ascend": 8.6}
SAVE_MINUTES, LOAD_MINUTES = 1.4, 1.7


def hours(_: str) -> str:
    """Return the machine minutes of an event: before images were passed on and a budget held, and now."""
    matrix, seconds, lines = load(ROOT / "matrix.yaml"), history.read(RESULTS).seconds, []
    for event in ("pull_request", "main", "nightly"):
        asked = matrix.ci.events[event]
        planned = plan(matrix, asked.tier)
        without = {**matrix.ci.events, event: asked.model_copy(update={"minutes": None})}
        ci = matrix.ci.model_copy(update={"events": without})
        before = make_row_plan(matrix.model_copy(update={"ci": ci}), planned, Known(seconds), event=event)
        # A row that gets an image loads it; the first one of a platform without makes it.
        setup = dict.fromkeys(services.images(matrix, before), 60 * LOAD_MINUTES)
        setup = {**{name: 60 * minutes for name, minutes in IMAGE_MINUTES.items()}, **setup}
        now = make_row_plan(matrix, planned, Known(seconds, setup=setup), event=event)
        guess = estimate(matrix, planned.cases, seconds)
        first, last = (cost.total(cost.by_lane(made, guess, seconds)) for made in (before, now))
        rows, passed = _with_image(matrix, before), _minutes_of_images(matrix, now)
        each = sum(IMAGE_MINUTES[name] * count for name, count in rows.items())
        cases = f"{first.minutes:.0f} ({first.guessed_minutes:.0f} a guess)", f"{rows.total()}", f"{each:.0f}"
        hours = f"{(first.minutes + each) / 60:.1f}", f"{last.minutes:.0f}", f"{passed:.0f}"
        lines.append((f"`{event}`", *cases, *hours, f"{(last.minutes + passed) / 60:.1f}"))
    head = ("event", "cases", "rows with an image", "images, one a row", "hours before")
    return markdown((*head, "cases now", "images now", "hours now"), lines)


def _with_image(matrix: Matrix, made: RowPlan) -> Counter[str]:
    """Return how many hosted rows of each platform have an image."""
    rows = Counter(row.platform for row in services.started(made) if not row.own)
    return Counter({name: count for name, count in rows.items() if matrix.platforms[name].container})


def _minutes_of_images(matrix: Matrix, made: RowPlan) -> float:
    """Return the machine minutes of images where one machine makes the image of several rows."""
    once = services.images(matrix, made)
    rest = {name: count for name, count in _with_image(matrix, made).items() if name not in once}
    passed = sum(IMAGE_MINUTES[name] + SAVE_MINUTES + LOAD_MINUTES * count for name, count in once.items())
    return passed + sum(IMAGE_MINUTES[name] * count for name, count in rest.items())


def limits(_: str) -> str:
    """Return the limits of the error with their sources, from ``accuracy`` of matrix.yaml."""
    rules = load(ROOT / "matrix.yaml").accuracy.rules()
    lines = [(f"`{name}`", f"{one.limit:g}", escaped(one.source)) for name, one in rules.items()]
    return markdown(("`accuracy`", "limit", "source"), lines)


def calibrated(machine: str) -> str:
    """Return how the cases of each toolchain ended over many seeds on a machine."""
    head = ("toolchain", "seeds", "cases", "how they ended", "canaries found")
    return markdown(head, calibration_tables.runs(calibration_tables.read(CALIBRATIONS / machine)))


def bench(argument: str) -> str:
    """Return a table of a machine's kept times: ``goals``, or one of :data:`bench_tables.OPS`."""
    machine, _, kind = argument.partition(" ")
    cases = bench_tables.read(RESULTS / machine)
    if kind == "goals":
        return markdown(*bench_tables.goals(cases))
    few, ops = kind in ("few-tokens", "widths"), bench_tables.OPS[kind]
    return markdown(*bench_tables.times(cases, ops, few=few, widths=kind == "widths"))


def checked(machine: str) -> str:
    """Return what each check, apart from the cases, found in each toolchain on a machine."""
    head = (
        "toolchain",
        "check",
        "cases",
        "nothing found",
        "with a finding",
        "explained",
        "without an end",
        "not tried",
    )
    rows: dict[tuple[str, str], list[int]] = {}
    for check in checks.read(CHECKS / machine):
        for cell in check.cells:
            clean = cell.tried - cell.found - cell.explained
            cases = cell.tried + cell.unfinished + cell.untried
            counts = (cases, clean, cell.found, cell.explained, cell.unfinished, cell.untried)
            row = rows.setdefault((cell.cell.split("/")[2], check.name), [0] * len(counts))
            row[:] = map(sum, zip(row, counts, strict=True))
    return markdown(head, [(*names, *map(str, counts)) for names, counts in sorted(rows.items())])


def caches(_: str) -> str:
    """Return what is known of each toolchain with a kind of compile cache."""
    entries = YAML(typ="safe").load(CACHES.read_text(encoding="utf-8"))
    rows = [(each["toolchain"], each["kind"], each["reason"].strip()) for each in entries]
    return markdown(("toolchain", "cache", "whose fault it is"), sorted(rows))


def noise(machine: str) -> str:
    """Return the largest share of the budget and the largest noise ratio of every output on a machine."""
    head = ("operator", "output", "dtype", "largest share of the budget", "largest noise ratio")
    return markdown(head, calibration_tables.outputs(calibration_tables.read(CALIBRATIONS / machine)))


def exceptions(_: str) -> str:
    """Return the expectations and exclusions of matrix.yaml with their ends."""
    matrix = load(ROOT / "matrix.yaml")
    lines = [
        (section[:-1], where_of(rule), escaped(rule.reason), f"`{rule.until}`", linked(rule.link))
        for section, _, rule in matrix.rules
    ]
    return markdown(("entry", "`where`", "reason", "until", "more"), lines)


def where_of(rule: Rule) -> str:
    """Return the cases of an entry in words."""
    return "; ".join(
        f"{key} {', '.join(f'`{value}`' for value in as_list(values))}" for key, values in rule.where.items()
    )


def linked(link: str) -> str:
    """Return a link that works from a page in ``docs``."""
    return f"[link]({link if link.startswith('https://') else f'../{link}'})"


def states(_: str) -> str:
    """Return the states and their meanings, as the dashboard says them."""
    return markdown(
        ("state", "meaning"), [(f"**{state}**", escaped(meaning)) for state, (_, meaning) in MEANING.items()]
    )


def probes(family: str) -> str:
    """Return the probes of a family: the question, what the failure really was, and the verdict in each version."""
    lines = []
    for probe in load_probes(ROOT / "probes"):
        if probe.path.parent.name == family:
            known = sweep_tables.verdicts_in_sweep(probe) or verdicts_in_results(probe)
            link = f"[`{probe.path.stem}`](../{probe.path.relative_to(ROOT)})"
            lines.append((link, escaped(probe.asks), escaped(probe.truth), ", ".join(windows(known)) or "not measured"))
    if not lines:
        raise ValueError(f"there is no family '{family}' in probes")
    return markdown(("probe", "question", "what it really was", "verdict"), lines)


def lessons(_: str) -> str:
    """Return what stood in the way of each platform, as its probes show it, in the order of matrix.yaml.

    Platforms without such a probe are named in the last line.
    """
    platforms, probed = load(ROOT / "matrix.yaml").platforms, load_probes(ROOT / "probes")
    lines, without = [], []
    for name in platforms:
        of_platform = [probe for probe in probed if name in probe.platforms]
        for probe in of_platform:
            verdicts = "; ".join(map(expected, probe.expect))
            link = f"[`{probe.id}`](../{probe.path.relative_to(ROOT)})"
            versions = ", ".join(f"`{one}`" for one in probe.requires)
            lines.append((f"`{name}`", escaped(probe.asks), escaped(probe.truth), versions, escaped(verdicts), link))
        if not of_platform:
            without.append(f"`{name}`")
    head = ("platform", "question", "what it really was", "toolchain", "expected", "probe")
    rest = [(", ".join(without), "no probe is a lesson of these", "", "", "", "")] if without else []
    return markdown(head, [*lines, *rest])


def expected(window: Window) -> str:
    """Return a verdict, and the versions that it is expected of where those are not all."""
    return window.verdict + (f" ({', '.join(window.versions)})" if window.versions else "")


def verdicts_in_results(probe: Probe) -> Verdicts:
    """Return a probe's verdict in the versions of its package that the kept results of the matrix have."""
    records = [record for record in _kept() if is_probe_record(record)]
    package = re.split(r"[<>=~!]", probe.requires[0])[0]
    known = {}
    for judged in judge_all([probe], records, []):
        if judged.record and judged.record.case.endswith(f"/{probe.id}"):
            known[Version(versions_of(judged.record.job)[package]).public] = judged.verdict
    return dict(sorted(known.items(), key=lambda item: Version(item[0])))


@cache
def _kept() -> tuple[Record, ...]:
    """Return the kept results of all machines."""
    return collect([RESULTS]).records


def columns(name: str) -> str:
    """Return the columns of a table of results, from its schema."""
    if name not in schema.SCHEMAS:
        raise ValueError(f"there is no table '{name}' of results")
    lines = [
        (f"`{column.name}`", TYPES[str(column.type)] + (", or null" if column.nullable else ""), description(column))
        for column in schema.SCHEMAS[name]
    ]
    return markdown(("column", "type", "meaning"), lines)


def description(column: Any) -> str:
    """Return what a column means."""
    return escaped(schema.description(column))


def views_of_tables(_: str) -> str:
    """Return the views over the tables of results."""
    return markdown(("view", "what it has"), [(f"`{name}`", escaped(text)) for name, text in views.VIEWS.items()])


def mutants(_: str) -> str:
    """Return a heading and a table for each toolchain whose kernels were mutated, from the kept verdicts."""
    with (MUTANTS / "judged.tsv").open(encoding="utf-8", newline="") as file:
        verdicts = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    parts = []
    for name, group in groupby(verdicts, key=lambda one: one["table"]):
        title = tomllib.loads((MUTANTS / f"{name}.toml").read_text(encoding="utf-8"))["title"]
        lines = [
            (f"`{one['op']}` {one['direction']}", escaped(one["mutant"]), escaped(one["killed by"])) for one in group
        ]
        killed = sum(not by.startswith("**nothing**") for _, _, by in lines)
        head = f"## {title}\n\n{killed} of {len(lines)} mutants are killed.\n\n"
        parts.append(head + markdown(("operator", "mutant", "killed by"), lines))
    return "\n".join(parts)


def windows(verdicts: Verdicts) -> list[str]:
    """Return the verdicts with the versions that each holds for; a version without a verdict ends a window."""
    text = []
    for verdict, group in groupby(verdicts.items(), key=lambda item: item[1]):
        versions = [version for version, _ in group]
        if verdict:
            text.append(
                f"{versions[0]} to {versions[-1]} {verdict}" if len(versions) > 1 else f"{versions[0]} {verdict}"
            )
    return text


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---"] * len(head), *lines))


# The types of Parquet, as people say them.
TYPES = {
    "string": "text",
    "double": "double",
    "int32": "int",
    "binary": "bytes",
    "timestamp[us]": "timestamp",
    "list<element: string>": "list of texts",
    "list<item: string>": "list of texts",
    "list<item: int64>": "list of integers",
    "map<string, string>": "map of texts",
    "map<string, double>": "map of doubles",
}

TABLES: Mapping[str, Callable[[str], str]] = {
    "attempts": lambda package: markdown(*sweep_tables.attempts(package)),
    "bench": bench,
    "calibrated": calibrated,
    "caches": caches,
    "checks": checked,
    "columns": columns,
    "events": events,
    "exceptions": exceptions,
    "hours": hours,
    "lessons": lessons,
    "limits": limits,
    "mutants": mutants,
    "noise": noise,
    "pairs": lambda stem: markdown(*sweep_tables.pairs(stem)),
    "probes": probes,
    "states": states,
    "versions": lambda stem: markdown(*sweep_tables.versions(stem)),
    "views": views_of_tables,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
