"""The figures of cases, cells, lanes and the whole page, counted anew and compared with the shown ones."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kernel_matrix.audit import comparisons
from kernel_matrix.audit.occupancy import occupancy
from kernel_matrix.audit.raw import Raw, same, same_all

# From the worst to the best, and from the least to the most.
STATES = (
    "fail",
    "error",
    "fixed",
    "missing",
    "flaky",
    "known",
    "unavailable",
    "lowered",
    "compiled",
    "told",
    "held",
    "pass",
    "excluded",
)
EVIDENCE = ("planned", "lowered", "compiled", "told", "held", "emulated", "ran")

LONG = 100_000  # characters of a text, after which the page's data has it no longer

Difference = tuple[str, Any, Any]  # the key, what is shown, and what the results make
Shown = Mapping[str, Any]


def unequal(key: str, shown: Any, counted: Any) -> Iterator[Difference]:
    """Yield a difference if two values are not equal."""
    if shown != counted:
        yield key, shown, counted


def of_case(shown: Shown, raw: Raw) -> Iterator[Difference]:
    """Yield where the figures of a case differ from the raw result that decides it."""
    outputs, counted = shown["outputs"], {output: _with_ratio(figures) for output, figures in raw.outputs.items()}
    yield from unequal("outputs", sorted(outputs), sorted(counted))
    for output in outputs.keys() & counted.keys():
        for figure in sorted(outputs[output].keys() | counted[output].keys()):
            one, other = outputs[output].get(figure), counted[output].get(figure)
            if one is None or other is None or not same(one, other):
                yield f"outputs.{output}.{figure}", one, other
    if not same_all(shown["artifact"], code := _code(raw)):
        yield "artifact", shown["artifact"], code
    times = raw.subjects.get("time", {})
    for key in ("run", "ratio", "rounds") if shown["times"] else ():
        if not same(shown["times"][key], times.get(key, -1.0)):
            yield f"times.{key}", shown["times"][key], times.get(key)
    yield from unequal("facts", shown["facts"], raw.facts)
    yield from unequal("attempts", list(shown["attempts"]), list(raw.attempts))
    yield from unequal("action", shown["action"], raw.action)
    yield from unequal("stage", shown["stage"], raw.stage)
    if not same(shown["seconds"], raw.seconds):
        yield "seconds", shown["seconds"], raw.seconds


def of_cell(cell: Shown, raws: Sequence[Raw], dtypes: Mapping[str, str]) -> Iterator[Difference]:
    """Yield where a cell differs from its cases and from the raw results that decide them.

    ``dtypes`` has the dtype of each case.
    """
    results = cell["results"]
    yield from unequal("planned", cell["planned"], len(results))
    yield from unequal("cases", cell["cases"], dict(Counter(result["state"] for result in results)))
    yield from unequal("state", cell["state"], _of_all(results, "state", STATES))
    yield from unequal("evidence", cell["evidence"], _of_all(results, "evidence", EVIDENCE))
    yield from unequal("emulated", cell["emulated"], sum(map(_is_emulated, results)))
    yield from unequal("stale_cases", cell["stale_cases"], sum(bool(result["stale"]) for result in results))
    yield from unequal("stale", cell["stale"], next((r["stale"] for r in results if r["stale"]), ""))
    yield from unequal("canaries", cell["canaries"], _canaries(raws))
    yield from unequal("determinism", cell.get("determinism"), _determinism(raws))
    made = {text for raw in raws if (text := raw.facts.get("checks", ""))}
    yield from unequal("checks", sorted(cell.get("checks", ())), sorted(made))
    yield from unequal("comparisons", comparisons.figures_of(cell.get("comparisons")), comparisons.found(raws))
    yield from _accuracy(cell["accuracy"], raws)
    yield from _artifact(cell["artifact"], raws)
    yield from _noise(cell["noise"], raws, dtypes)
    timed = {r["name"].removesuffix("-timed"): r["times"] for r in results if r["state"] == "pass" and r["times"]}
    yield from unequal("timed", {t["case"]: {k: t[k] for k in t if k != "case"} for t in cell["timed"]}, timed)
    shown = {name: set(values) for name, values in cell["versions"].items()}
    versions = {name: {v for raw in raws if (v := raw.job.get(_fact(name)))} for name in shown}
    yield from unequal("versions", shown, versions)


def _of_all(parts: Sequence[Shown], key: str, order: Sequence[str]) -> str | None:
    """Return the first in an order of what the cases of a cell, or the cells of a lane, have for a key.

    What is left out counts only where all is. What has no device, or is skipped, counts only where nothing was tried.
    """
    asked = [part for part in parts if part["state"] != "excluded"] or parts
    tried = [part for part in asked if part["state"] != "unavailable"] or asked
    return min((part[key] for part in tried), key=order.index, default=None)


def _fact(name: str) -> str:
    return name if name == "python" else f"version.{name}"


def _canaries(raws: Iterable[Raw]) -> dict[str, int] | None:
    counts = [(int(r.metrics.get("canary.injected", 0)), int(r.metrics.get("canary.caught", 0))) for r in raws]
    injected, caught = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    return {"injected": injected, "caught": caught} if injected else None


def _determinism(raws: Iterable[Raw]) -> dict[str, int] | None:
    repeats, differing = 0, 0
    for raw in raws:
        repeats += int(raw.metrics.get("repeats", 0))
        differing += int(raw.metrics.get("repeats_differing", 0))
    return {"repeats": repeats, "differing": differing} if repeats else None


def _accuracy(shown: Shown | None, raws: Sequence[Raw]) -> Iterator[Difference]:
    """Yield where the error that is shown is not the one nearest to its budget."""
    shares = {}
    for raw in raws:
        for output, figures in raw.outputs.items():
            for name in ("max_abs", "rel_fro"):
                limit = figures.get(f"limit_{name}")
                if name in figures and limit:
                    finite = abs(figures[name]) < float("inf")
                    shares[raw.case, output, name] = (figures[name] / limit if finite else float("inf")), figures[name]
    if not shown or not shares:
        yield from unequal("accuracy", shown, None if not shares else max(shares.values())[0])
        return
    share, error = shares.get((shown["case"], shown["output"], shown["figure"]), (-1.0, -1.0))
    figures = next((r.outputs[shown["output"]] for r in raws if r.case == shown["case"]), {})
    ratio = _with_ratio(figures).get("noise_ratio")
    if shown["noise_ratio"] != ratio and (ratio is None or not same(shown["noise_ratio"], ratio)):
        yield "accuracy.noise_ratio", shown["noise_ratio"], ratio
    if not same(shown["limit"], figures.get(f"limit_{shown['figure']}", -1.0)):
        yield "accuracy.limit", shown["limit"], figures.get(f"limit_{shown['figure']}")
    if not same(shown["error"], error):
        yield "accuracy.error", shown["error"], error
    if not same(shown["share"], max(share for share, _ in shares.values())) or not same(shown["share"], share):
        yield "accuracy.share", shown["share"], max(share for share, _ in shares.values())


def _with_ratio(figures: Mapping[str, float]) -> dict[str, float]:
    """Return figures with the noise ratio that follows from the two errors, in place of the one that a record names."""
    rest = {name: value for name, value in figures.items() if name != "noise_ratio"}
    counts = {"rel_fro", "floor_rel_fro"} <= rest.keys() and rest.get("elements", 1)
    if counts and 0 < (floor := _error(rest["floor_rel_fro"])) < math.inf:
        is_wrong = rest.get("nan") or rest.get("inf")
        rest["noise_ratio"] = (math.inf if is_wrong else _error(rest["rel_fro"])) / floor
    return rest


def _error(value: float) -> float:
    return value if value >= 0 else math.inf


def _noise(shown: Shown, raws: Iterable[Raw], dtypes: Mapping[str, str]) -> Iterator[Difference]:
    """Yield where the noise ratio differs: the root of the mean square, weighed by elements."""
    groups: dict[tuple[str, str], list[tuple[float, dict[str, float]]]] = {}
    for raw in raws:
        for output, figures in raw.outputs.items() if raw.outcome in ("pass", "fail") else ():
            if "floor_rel_fro" in figures and "rel_fro" in figures:
                weight = min(_error(figures.get("elements", 1.0)), 1000)
                groups.setdefault((dtypes[raw.case], output), []).append((weight, _with_ratio(figures)))
    yield from unequal("noise", {(d, o) for d, outputs in shown.items() for o in outputs}, set(groups))
    for (dtype, output), weighed in groups.items():
        one = shown.get(dtype, {}).get(output)
        narrow = [
            (w, f) for w, f in weighed if f.get("itemsize", 4) < 4 and {"misrounded", "floor_misrounded"} <= f.keys()
        ]
        square = _mean([(w, f["noise_ratio"] ** 2) for w, f in weighed if "noise_ratio" in f])
        counted = {
            "ratio": None if square is None else math.sqrt(square),
            "misrounded": _mean([(w, _error(f["misrounded"])) for w, f in narrow]),
            "floor_misrounded": _mean([(w, _error(f["floor_misrounded"])) for w, f in narrow]),
            "elements": int(sum(w for w, _ in weighed)),
            "cases": len(weighed),
        }
        for key, value in counted.items() if one else ():
            if one[key] != value and (value is None or not same(one[key], value)):
                yield f"noise.{dtype}.{output}.{key}", one[key], value


def _mean(weighed: Sequence[tuple[float, float]]) -> float | None:
    total = sum(weight for weight, _ in weighed)
    return sum(weight * value for weight, value in weighed if weight) / total if total else None


def _code(raw: Raw) -> dict[str, float]:
    """Return what a result says of its code, and the occupancy that follows from it."""
    code = raw.subjects.get("artifact", {})
    value = occupancy(raw.case.split("/")[1], code) if code else None
    return code if value is None else {**code, "occupancy": value}


def _artifact(shown: Shown | None, raws: Iterable[Raw]) -> Iterator[Difference]:
    largest: dict[str, float] = {}
    kinds = sorted({kind for raw in raws if (kind := raw.facts.get("artifact.kind"))})
    for raw in raws:
        for name, value in _code(raw).items():
            least = name == "occupancy" and name not in raw.subjects["artifact"]
            largest[name] = min(largest.get(name, 1), value) if least else max(largest.get(name, 0), value)
    yield from unequal("artifact.kinds", list(shown["kinds"]) if shown else [], kinds)
    if kinds and shown and not same_all(shown["largest"], largest):
        yield "artifact.largest", shown["largest"], largest


def of_lane(lane: Shown, cells: Sequence[Shown]) -> Iterator[Difference]:
    """Yield where a lane differs from its cells."""
    yield from unequal("cells", lane["cells"], len(cells))
    yield from unequal("by_state", lane["by_state"], _count(cells, "state"))
    yield from unequal("by_evidence", lane["by_evidence"], _count(cells, "evidence"))
    yield from unequal("emulated", lane["emulated"], sum(cell["emulated"] > 0 for cell in cells))
    yield from unequal("stale_by_evidence", lane["stale_by_evidence"], _count(filter(_is_stale, cells), "evidence"))
    yield from unequal("state", lane["state"], _of_all(cells, "state", STATES))
    yield from unequal("evidence", lane["evidence"], _of_all(cells, "evidence", EVIDENCE))
    counts = [cell["canaries"] for cell in cells if cell["canaries"]]
    summed = {key: sum(count[key] for count in counts) for key in ("injected", "caught")} if counts else None
    yield from unequal("canaries", lane["canaries"], summed)
    runs = [cell["determinism"] for cell in cells if cell.get("determinism")]
    total = {key: sum(run[key] for run in runs) for key in ("repeats", "differing")} if runs else None
    yield from unequal("determinism", lane.get("determinism"), total)


def of_run(run: Shown, cells: Sequence[Shown], raws: Iterable[Raw], planned: int) -> Iterator[Difference]:
    """Yield where the sums of the whole differ; the states of all cases add up to the plan."""
    results = [result for cell in cells for result in cell["results"]]
    yield from unequal("cells", run["cells"], len(cells))
    yield from unequal("cells_by_state", run["cells_by_state"], _count(cells, "state"))
    yield from unequal("cells_by_evidence", run["cells_by_evidence"], _count(cells, "evidence"))
    yield from unequal("emulated", run["emulated"], sum(cell["emulated"] > 0 for cell in cells))
    yield from unequal("stale_by_evidence", run["stale_by_evidence"], _count(filter(_is_stale, cells), "evidence"))
    yield from unequal("cases", run["cases"], planned)
    yield from unequal("cases_by_state", run["cases_by_state"], _count(results, "state"))
    yield from unequal("the sum of cases_by_state", sum(run["cases_by_state"].values()), planned)
    yield from unequal("stale_cases", run["stale_cases"], sum(bool(result["stale"]) for result in results))
    raws = list(raws)
    commits = {commit for r in raws if (commit := r.job.get("commit"))}
    # An abbreviation of another name is left out, where both are of the commit itself or of changes on it.
    short = {
        c for c in commits for o in commits
        if len(c.split("+")[0]) >= 7 and len(o.split("+")[0]) > len(c.split("+")[0])
        and o.startswith(c.split("+")[0]) and ("+" in o) == ("+" in c)
    }  # fmt: skip
    yield from unequal("commits", sorted(run["commits"]), sorted(commits - short))
    used = {r.job.get("device", "none") for r in raws if r.action in ("run", "emulate")} - {"none"}
    yield from unequal("devices", sorted(run["devices"]), sorted(used))


def of_speed(speed: Sequence[Shown], cells: Sequence[Shown]) -> Iterator[Difference]:
    """Yield where the table of times differs from the timed cases of the cells."""
    counted = {
        (c["platform"], c["target"], f"{c['op']} {c['direction']}", t["case"], c["toolchain"]): t["ratio"]
        for c in cells
        for t in c["timed"]
    }
    shown = {
        (row["platform"], row["target"], row["op"], row["case"], toolchain): times["ratio"]
        for row in speed
        for toolchain, times in row["toolchains"].items()
    }
    yield from unequal("speed", shown, counted)


def of_undiagnosed(shown: Sequence[Shown], cells: Sequence[Shown]) -> Iterator[Difference]:
    """Yield where the list of errors without a known cause differs from the errors of the cases."""
    counted: Counter[tuple[str, str]] = Counter()
    for result in (result for cell in cells for result in cell["results"] if result["state"] == "error"):
        text = result["message"] or result["reason"]
        if text and result["diagnosis"] and not result["diagnosis"]["rule"]:
            counted[result["stage"], " ".join(text.split())[:LONG]] += 1
    listed: Counter[tuple[str, str]] = Counter()  # texts that differ behind the cut are the same here
    for error in shown:
        listed[error["stage"], error["message"][:LONG]] += error["cases"]
    yield from unequal("undiagnosed", dict(listed), dict(counted))


def of_badge(message: str, run: Shown) -> Iterator[Difference]:
    """Yield where the badge's message differs from the counts."""
    red = [f"{run['cells_by_state'][s]} {s}" for s in STATES[:4] if s in run["cells_by_state"]]
    known = [f"{run['cells_by_evidence'][e]} {e}" for e in EVIDENCE[:0:-1] if run["cells_by_evidence"].get(e)]
    counts = (
        (", ".join(red) or " · ".join(known)) + f" of {run['cells']} cell{'s' if run['cells'] != 1 else ''}"
        if red or known
        else "nothing known"
    )
    stale = sum(run["stale_by_evidence"].values())
    told = run["cells_by_evidence"].get("emulated", 0)
    if run["emulated"] != told:
        counts += f" · {run['emulated'] - told}{' more' * (told > 0)} emulated"
    counted = counts + (f" · {stale} stale" if stale else "")
    silent = re.sub(r" · \d+ lanes? silent$", "", message)  # by the history, which the results do not hold
    yield from unequal("message", silent, counted)


def _is_emulated(result: Shown) -> bool:
    """Return whether a case came to an end of its own in an emulator or an interpreter."""
    nowhere = ("missing", "unavailable", "excluded", "told", "compiled", "lowered")
    return result["action"] == "emulate" and result["state"] not in nowhere


def _is_stale(cell: Shown) -> bool:
    return bool(cell["stale"])


def _count(values: Iterable[Shown], key: str) -> dict[str, int]:
    return dict(Counter(value[key] for value in values))


_TIMES = ("median_us", "p5_us", "p95_us", "samples")


def of_bench(shown: Sequence[Mapping[str, Any]], raws: Mapping[str, Sequence[Raw]]) -> Iterator[Difference]:
    """Yield the results that are absent, and the times that no raw result has or that were not to be shown."""
    known = {
        (raw.case, raw.job.get("device", "")): raw
        for group in raws.values()
        for raw in sorted(group, key=lambda raw: raw.job.get("started", ""))
        if raw.case.startswith("bench:")
    }
    yield from unequal("bench: results", len(shown), len(known))
    for one in shown:
        place = f"{one['platform']}/{one['target']}/{one['toolchain']}/{one['op']}.{one['direction']}/{one['case']}"
        raw = known.get((f"bench:{place}", one["device"]))
        if raw is None:
            yield f"bench: {place}", "a result", "none"
            continue
        is_timed = raw.outcome == "pass" and raw.action == "run"
        yield from unequal(f"bench: {place}: it has a time", one["time"] is not None, is_timed)
        yield from unequal(f"bench: {place}: rivals", bool(one["rivals"]) and not is_timed, False)
        for name, times in [("bench", one["time"]), *((f"bench.{rival}", t) for rival, t in one["rivals"].items())]:
            for key in _TIMES if times else ():
                yield from unequal(f"bench: {place}: {name}.{key}", times[key], raw.metrics.get(f"{name}.{key}"))
