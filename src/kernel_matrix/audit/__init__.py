"""Hold the page's data and compat.json to the raw results, which are read and counted anew by a second, simple road.

Nothing here calls what made the page: results are plain values from the result files, the plan is made by nested loops,
and each state follows from its result by the rules of the README, written down a second time. What is shared is a list
(``tests/audit/test_shared.py``): what a job reads, from which staleness follows, and tables of published figures.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from kernel_matrix.audit import figures
from kernel_matrix.audit.figures import LONG, Difference, Shown, of_bench
from kernel_matrix.audit.files import choose
from kernel_matrix.audit.job_sample import Sample, SampleJudge, content_of, sums
from kernel_matrix.audit.page import OVERVIEW, Compat, of_overview, of_rows, places_of, read_cells, read_data
from kernel_matrix.audit.plan import planned as plan_of
from kernel_matrix.audit.raw import Raw, read
from kernel_matrix.audit.states import Judge, Now, evidence_of
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.reads import Checkout
from kernel_matrix.vendors.builds import kinds
from kernel_matrix.vendors.registry import vendor_named

# How the reason begins where a machine of a row had no device for what it was to run: the plan says so, and no result.
HAD_NO_DEVICE = "the machine was to run it"
# It holds every result as a plain dictionary, 0.1 MB and 2 ms for each, and every planned case, 2 kB and 0.02 ms.
# Of more of either the report audits a sample.
MOST_RESULTS, MOST_PLANNED = 20_000, 100_000
FIGURES, BADGE = "compat.json", "badge.json"


def audit(
    site: Path,
    results: Iterable[Path],
    matrix: Matrix,
    root: Path,
    asked: Collection[str] | None = None,
    now: Now | None = None,
) -> list[str]:
    """Return a sentence for each figure that differs, with the file, the key, and both values.

    Args:
        site: the folder with the page, its data, and compat.json.
        results: the folders of results, or files of results; which of them count the audit finds out by itself.
        matrix: matrix.yaml.
        root: the folder that it stands in.
        asked: the ids of the planned cases, where it is known which part of the tier was asked for. Where it is not, as
            many cases may be absent as the page says.
        now: the present, by default this machine and its checkout.

    Raises:
        UserError: the site has no report.
    """
    shown, overview = _read(site / FIGURES, _json), _read(site / OVERVIEW, read_data)
    content = {**matrix.model_dump(serialize_as_any=True), "accuracy": matrix.accuracy.limits()}
    chosen = choose(results, shown["problems"])
    cells, absent = _read(site, lambda folder: read_cells(folder, overview))
    raws = _without_devices(chosen.by_case, cells)
    cases = plan_of(content, shown["run"]["tier"])
    judge = Judge(content, cases, raws, now or _present(matrix, root), chosen.told)
    differences = [
        *_of("results", chosen.silent),
        *_of(FIGURES, _of_plan(cells, cases, asked, shown["run"]["left_out"])),
        *_of(OVERVIEW, absent),
        *_of(OVERVIEW, of_overview(overview, cells, shown)),
        *_of("data", _of_other_files(site, overview, shown, cells)),
        *_of(FIGURES, _of_cells(judge, shown, cells)),
        *_of(FIGURES, _of_the_whole(shown, cells, raws)),
        *_of(BADGE, figures.of_badge(_read(site / BADGE, _json)["message"], shown["run"])),
    ]
    return list(dict.fromkeys(differences))


def audit_sample(
    site: Path,
    sample: Sample,
    matrix: Matrix,
    root: Path,
    asked: Collection[str] | None = None,
    now: Now | None = None,
) -> list[str]:
    """Return a sentence for each figure of a sample that differs, and for each sum over all cells.

    ``asked`` are the ids of the planned cases of the sample, where only a part of the tier was asked for. For the
    others see :func:`audit`.

    Raises:
        UserError: the site has no report.
    """
    compat, overview = _read(site / FIGURES, Compat), _read(site / OVERVIEW, read_data)
    content, shown = content_of(matrix, sample.sources), compat.rest
    places = places_of(overview, sample.sources)
    cells, absent = _read(site, lambda folder: read_cells(folder, overview, {*places}))
    cases = plan_of(content, shown["run"]["tier"])
    raws = _without_devices(read(sample.files), cells)
    judge = SampleJudge(content, cases, raws, now or _present(matrix, root), cells)
    part: dict[str, list[Shown]] = {"cells": []}
    of_sums = list(sums(shown["run"], _also_kept(compat.cells(), sample, part["cells"])))
    lanes = [lane for lane in shown["lanes"] if (lane["platform"], lane["toolchain"]) in sample.sources]
    differences = [
        *_of(FIGURES, _of_plan(cells, cases, asked)),
        *_of(OVERVIEW, absent),
        *_of(OVERVIEW, of_rows(overview, zip(places, cells, strict=False), shown)),
        *_of("data", _of_same_cells(part, cells)),
        *_of(FIGURES, _of_cells(judge, part, cells)),
        *_of(FIGURES, _of_lanes(lanes, cells)),
        *_of(FIGURES, of_sums),
        *_of(BADGE, figures.of_badge(_read(site / BADGE, _json)["message"], shown["run"])),
    ]
    return list(dict.fromkeys(differences))


def _without_devices(raws: Mapping[str, list[Raw]], cells: Iterable[Shown]) -> dict[str, list[Raw]]:
    """Return the raw results. A result of a machine without a device for its row is missing, and only its job stays.

    Which machine was to run a case stands in the plan of the rows, which the results do not hold: the page is believed.
    """
    had_none = {
        f"{cell['id']}/{result['name']}"
        for cell in cells
        for result in cell["results"]
        if result["state"] == "missing" and result["reason"].startswith(HAD_NO_DEVICE)
    }
    nothing: dict[str, Any] = {"action": "", "stage": "", "seconds": 0.0, "attempts": (), "samples": {}}
    nothing |= {name: {} for name in ("metrics", "outputs", "subjects", "facts")}

    def seen(raw: Raw) -> Raw:
        has_not_run = raw.action == "compile" or (raw.outcome, raw.action) == ("unavailable", "")
        return raw._replace(outcome="missing", **nothing) if has_not_run else raw

    return {case: [seen(raw) for raw in group] if case in had_none else group for case, group in raws.items()}


def _also_kept(cells: Iterable[Shown], sample: Sample, kept: list[Shown]) -> Iterator[Shown]:
    """Yield all cells, and append the sample's cells to ``kept``: to read them twice takes long."""
    for cell in cells:
        if (cell["platform"], cell["toolchain"]) in sample.sources:
            kept.append(cell)
        yield cell


def _of_plan(
    cells: Iterable[Shown], cases: Mapping[str, Any], asked: Collection[str] | None, left_out: int = 0
) -> Iterator[Difference]:
    """Hold the cases of the page to the plan."""
    ids = [f"{cell['id']}/{result['name']}" for cell in cells for result in cell["results"]]
    wanted = set(cases if asked is None else asked)
    yield from figures.unequal("cases that stand twice", len(ids) - len(set(ids)), 0)
    yield from figures.unequal("cases that are not planned", sorted(set(ids) - wanted)[:3], [])
    absent = sorted(wanted - set(ids))
    if asked is not None or len(absent) != left_out:
        yield from figures.unequal("planned cases that are absent", absent[:3], [])
    yield from figures.unequal("cases that matrix.yaml does not have", sorted(wanted - set(cases))[:3], [])


def _of_other_files(site: Path, overview: Shown, shown: Shown, cells: Iterable[Shown]) -> Iterator[Difference]:
    """Hold the other files of data, and the cells without their cases, to compat.json."""
    wanted = {"speed": shown["speed"], "agreement": shown["agreement"], "toolchains": shown["toolchains"]}
    for name in overview["has"]:
        if name in wanted:
            value = _read(site / "data" / f"{name}.js", read_data)
            yield from figures.unequal(name, value["cases"] if name == "speed" else value, wanted[name])
            if name == "speed":
                yield from figures.unequal("bench", value["bench"], shown["bench"])
    has_speed = bool(shown["speed"] or shown["bench"])
    yield from figures.unequal("speed: there is a file", "speed" in overview["has"], has_speed)
    yield from _of_same_cells(shown, cells)


def _of_same_cells(shown: Shown, cells: Iterable[Shown]) -> Iterator[Difference]:
    """Compare the cells of the page, without their cases, with the cells of compat.json."""
    by_name = {cell["id"]: cell for cell in shown["cells"]}
    for cell in cells:
        for key, value in by_name.get(cell["id"], {}).items():
            yield from figures.unequal(f"{cell['id']}: {key}", _cut(cell.get(key)), _cut(value))


def _cut(value: Any) -> Any:
    return value[:LONG] if isinstance(value, str) else value


def _of_cells(judge: Judge, shown: Shown, cells: list[Shown]) -> Iterator[Difference]:
    """Hold every case and cell to the raw results."""
    dtypes = {case: str(facts.get("dtype", "any")) for case, facts in judge.cases.items()}
    for cell in cells:
        deciding: list[Raw] = []
        for result in cell["results"]:
            case = f"{cell['id']}/{result['name']}"
            if case not in judge.cases:
                continue
            differences, raw = _of_case(judge, case, result)
            yield from ((f"{case}: {key}", one, other) for key, one, other in differences)
            deciding += [raw] if raw and result["state"] != "told" else []
        for key, one, other in figures.of_cell(cell, deciding, dtypes):
            yield f"{cell['id']}: {key}", one, other
    names = {cell["id"] for cell in cells}
    yield from figures.unequal("the cells of the page", {cell["id"] for cell in shown["cells"]}, names)


def _of_case(judge: Judge, case: str, result: Shown) -> tuple[list[Difference], Raw | None]:
    """Return where a case differs, and the raw result that decides it."""
    allowed = judge.shown_as(case, result)
    matching = [raw for state, raw in allowed if state == result["state"]]
    if not matching:
        return [("state", result["state"], " or ".join(dict.fromkeys(state for state, _ in allowed)))], None
    raws = [raw for raw in matching if raw is not None]
    if not raws:
        return list(
            figures.unequal("evidence", result["evidence"], "told" if result["state"] == "told" else "planned")
        ), None
    found = [(list(figures.of_case(result, raw)), raw) for raw in raws]
    differences, raw = min(found, key=lambda pair: len(pair[0]))
    differences += figures.unequal("evidence", result["evidence"], evidence_of(result["state"], raw))
    fresh = judge.is_fresh(case, raw)
    if fresh == bool(result["stale"]):
        differences.append(("stale", result["stale"], "not stale" if fresh else "stale"))
    return differences, raw


def _of_the_whole(shown: Shown, cells: list[Shown], raws: Mapping[str, list[Raw]]) -> Iterator[Difference]:
    """Hold the sums, the lanes and the table of times to the cells."""
    every = [raw for group in raws.values() for raw in group]
    planned = sum(len(cell["results"]) for cell in cells)
    for key, one, other in figures.of_run(shown["run"], cells, every, planned):
        yield f"run.{key}", one, other
    yield from _of_lanes(shown["lanes"], cells)
    yield from figures.of_speed(shown["speed"], cells)
    yield from of_bench(shown["bench"], raws)
    yield from figures.of_undiagnosed(shown["undiagnosed"], cells)
    known = {f"{cell['id']}/{result['name']}" for cell in cells for result in cell["results"]}
    unplanned = sum(
        len(group) for case, group in raws.items() if case not in known and not case.startswith(("probe/", "bench:"))
    )
    yield from figures.unequal("run.unplanned", shown["run"]["unplanned"], unplanned)
    reasons: dict[str, int] = {}
    for result in (result for cell in cells for result in cell["results"] if result["stale"]):
        reasons[result["stale"]] = reasons.get(result["stale"], 0) + 1
    yield from figures.unequal("stale", {entry["reason"]: entry["cases"] for entry in shown["stale"]}, reasons)


def _of_lanes(shown: Iterable[Shown], cells: Iterable[Shown]) -> Iterator[Difference]:
    """Hold the lanes to their cells."""
    lanes: dict[tuple[str, str, str], list[Shown]] = {}
    for cell in cells:
        lanes.setdefault((cell["platform"], cell["target"], cell["toolchain"]), []).append(cell)
    for lane in shown:
        place = lane["platform"], lane["target"], lane["toolchain"]
        for key, one, other in figures.of_lane(lane, lanes.pop(place, [])):
            yield f"{'/'.join(place)}: {key}", one, other
    yield from figures.unequal("lanes that are absent", sorted("/".join(place) for place in lanes), [])


def _of(file: str, differences: Iterable[Difference]) -> Iterator[str]:
    for key, shown, counted in differences:
        yield f"{file}: {key}: {_short(shown)} is shown, and the results make {_short(counted)}"


def _short(value: Any) -> str:
    return " ".join(str(value).split())[:200]


def _read(path: Path, parse: Any) -> Any:
    try:
        return parse(path)
    except (OSError, ValueError, IndexError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}: this is no report that can be audited ({error}). Make it: `kernel-matrix report`"
        ) from None


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _present(matrix: Matrix, root: Path) -> Now:
    locks = {
        (name, entry.toolchain): _digests(root / (entry.lock or matrix.toolchains[entry.toolchain].lock), kind)
        for name, platform in matrix.platforms.items()
        for kind in [vendor_named(platform.device).build]
        for entry in platform.entries
    }
    return Now(datetime.now(UTC), locks, Checkout(matrix, root))


def _digests(lock: Path, kind: str) -> frozenset[str]:
    """Return the digests of the locks that a machine with the builds of this kind, or for a CPU, may have installed."""
    own = {one: lock.with_name(f"{lock.stem}.{one}.txt") for one in kinds()}
    of_kinds = [own.get(one) for one in ("cpu", kind)] if any(path.is_file() for path in own.values()) else [lock]
    found = (path for path in of_kinds if path is not None and path.is_file() and kind != "own")
    return frozenset(sha256(path.read_bytes()).hexdigest() for path in found)
