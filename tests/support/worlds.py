"""Make plans and results at random, in which every rule of judging is reached, also as the audit reads them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import numpy as np
from checkouts import AtCommit
from common import output_figures

from kernel_matrix.audit.plan import Facts
from kernel_matrix.audit.raw import Raw
from kernel_matrix.audit.states import Judge, Now
from kernel_matrix.config.model import Exclusion, Expectation, Resource
from kernel_matrix.config.owed import Owed
from kernel_matrix.config.plan import Case, Cell, Job, Plan
from kernel_matrix.results.present import Pins, Present
from kernel_matrix.store.record import NOT_OUTPUTS, Record, Sample

NOW = datetime(2026, 6, 1, tzinfo=UTC)
COMMIT = "abcdef123456"
PRESENT = Present(
    NOW,
    AtCommit(COMMIT, "decade0"),
    {"one": Pins("ci/locks/one.txt", "1" * 64, ("compiler>=1",)), "two": Pins("ci/locks/two.txt", "2" * 64, ())},
)
_CELLS = [
    Cell("cuda", "sm_90", "one", "op", "forward", "one", "package", "nvidia", "run"),
    Cell("cuda", "sm_80", "one", "op", "forward", "one", "package", "nvidia", "run"),
    Cell("cuda", "sm_90", "two", "op", "forward", "two", "package", "nvidia", "run"),
    Cell("cpu", "any", "one", "op", "forward", "one", "package", "cpu", "emulate"),
    Cell("metal", "m1", "two", "op", "forward", "two", "package", "apple", "compile"),
    Cell("cuda", "sm_90", "one", "op", "backward", "one", "package", "nvidia", "run"),
]
# The tests of a suite: each asserts by itself, and may compare numbers as well.
_TESTS = Cell("cpu", "any", "two", "op", "tests", "two", "package", "cpu", "run")
_OWNED = {"owner": "the tests", "link": "lock.txt"}
_SHARED = {"where": {"op": "op"}, **_OWNED}
_NEXT_YEAR = {"until": "2027-01-01", **_SHARED}
_EXPECTATIONS = [
    Expectation(outcome="error", stage="lower", match="no such function", reason="It has none.", **_NEXT_YEAR),
    Expectation(outcome="error", match="segfault", reason="It crashes.", until="compiler>=3", **_SHARED),
    Expectation(outcome="fail", match="is over", reason="It is less exact.", until="2026-01-01", **_SHARED),
    Expectation(outcome="fail", match="is over", reason="It is not exact.", versions=["compiler<2"], **_NEXT_YEAR),
]
_EXCLUSION = Exclusion(reason="It is not wanted here.", until="2027-01-01", **_SHARED)
_OF_TESTS = {"source": "chosen for the tests of the judge"}
RESOURCES = [
    Resource(where={"platform": ["cuda", "metal"]}, registers=32, **_OF_TESTS),
    Resource(where={"target": "sm_90", "dtype": "bf16"}, registers=64, **_OF_TESTS),
    Resource(where={"direction": "forward", "toolchain": "two"}, spills=0, **_OF_TESTS),
]
# Figures with the right limits, and with values that no other machine has.
_ODD = [
    {"floor_max_abs": 1e-5, "floor_rel_fro": 1e-5},
    {"floor_rel_fro": 8.1e-7},
    {"largest": 2.0},
    {"elements": 9.0},
    {"conditioning_max_abs": 1.0009e-7},
    {"conditioning_rel_fro": 1.1e-7},
    {"steps": 4.0},
]
_MESSAGES = ["h: max_abs 1 is over 0.1", "ValueError: no such function", "segfault at 0", "", "two\n\n  lines\tof it"]


def world(random: Random, op: str = "op") -> tuple[Plan, list[list[Record]], Present | None]:
    """Return a plan of one operator, the records of some files, and perhaps the present that they must agree with."""
    outputs = random.choice([("h", "m"), ("h", "m"), ("h",), ()])
    owed = Owed(
        outputs, 4.0, 8.0, random.choice([1.0, 4.0]), 0.5, True, outputs[:1], (2.5, 1.0) if len(outputs) == 1 else None
    )
    names = random.sample([f"tokens{n}" for n in range(9)], random.randint(3, 9))
    cases = [
        case
        for cell in random.sample(_CELLS, random.randint(2, 6))
        for case in _cases(random, replace(cell, op=op), names, owed)
    ]
    if random.random() < 0.3:
        cases += _cases(
            random, replace(_TESTS, op=op), names, replace(owed, outputs=(), sums=(), growth=None, asserted=True)
        )
    plan = Plan("package", "quick", tuple(Job(c.cell.platform, c.cell.toolchain, (c,)) for c in cases))
    jobs = [_job(random, random.choice(cases).cell) for _ in range(random.randint(4, 24))]
    faulty = random.choice([0.0, 0.1, 0.4])
    files = [_file(random, cases, job, faulty) for job in jobs]
    files = [[replace(record, run=f"{number:016x}") for record in file] for number, file in enumerate(files)]
    if random.random() < 0.2:
        files.append([record for file in files for record in _again(random.sample(file, len(file) // 2))])
    presence = random.choice([PRESENT, PRESENT, None])
    if random.random() < 0.4:  # a plan of fewer cases than the jobs had, as the quick tier has
        plan = replace(plan, jobs=tuple(job for job in plan.jobs if random.random() < 0.7) or plan.jobs)
    return plan, files, presence


def _again(records: list[Record]) -> list[Record]:
    """Return the records of a job as another file has them: with a job of their own."""
    return [replace(record, run=f"{int(record.run, 16) + 256:016x}") for record in records]


def _cases(random: Random, cell: Cell, names: list[str], owed: Owed) -> list[Case]:
    """Return the cases of a cell. Few have an exclusion or expectations."""
    cases = []
    rules = tuple(random.sample(_EXPECTATIONS, random.randint(1, 3))) if random.random() < 0.4 else ()
    for name in names:
        axes = {"dtype": "bf16" if name in ("tokens1", "tokens4") else "fp32"} if name != "tokens0" else {}
        exclusion = _EXCLUSION if random.random() < 0.08 else None
        cases.append(Case(cell, name, axes, exclusion, rules if random.random() < 0.7 else (), owed))
    return cases


def _job(random: Random, cell: Cell) -> dict[str, str]:
    lock = {"one": "1", "two": "2"}[cell.toolchain] * 64
    job = {
        "job": f"{cell.platform}.{cell.toolchain}",
        "platform": cell.platform,
        "toolchain": cell.toolchain,
        "device.vendor": cell.vendor,
        "device.targets": random.choice([cell.target, "sm_80 sm_90", cell.target]),
        "started": "2026-05-01T00:00:00Z",
        "commit": COMMIT,
        "lock.sha256": lock,
        "version.compiler": "1.5",
    }
    job |= random.choice(
        [
            *[{}] * 8,
            {"commit": "0ddba11"},
            {"commit": "decade0"},
            {"commit": ""},
            {"started": "2027-01-01T00:00:00Z"},
            {"started": "at noon"},
            {"lock.sha256": "3" * 64},
            {"version.compiler": "0.5"},
            {"version.compiler": "3.0"},
            {"device.vendor": "amd"},
            {"platform": "rocm"},
        ]
    )
    if random.random() < 0.05:
        return {}
    return job


def _file(random: Random, cases: list[Case], job: dict[str, str], faulty: float) -> list[Record]:
    """Return the records of one job. Its cells carry canaries, and sometimes it says what became of them."""
    place = job.get("platform"), job.get("toolchain")
    mine = [case for case in cases if (case.cell.platform, case.cell.toolchain) == place] or cases
    chosen = random.sample(cases if random.random() < 0.1 else mine, random.randint(1 + len(mine) // 2, len(mine)))
    records, carrying = [], set()
    for case in chosen:
        group = case.cell, case.axes.get("dtype")
        carries = group not in carrying and random.random() < 0.99
        record = _record(random, case, faulty, carries)
        if carries and "canary.injected" in record.metrics:
            carrying.add(group)
        records.append(record)
    if random.random() < 0.1:
        records.append(random.choice(records))
    if random.random() < 0.1:
        records.append(Record("somebody/else/s/case", "pass", "run"))
    if job and random.random() < 0.3:
        counts = [sum(int(r.metrics.get(f"canary.{name}", 0)) for r in records) for name in ("injected", "caught")]
        job = {**job, **dict(zip(("canary.injected", "canary.caught"), map(str, counts), strict=True))}
        job |= random.choice([{}] * 6 + [{"canary.caught": "0"}, {"canary.injected": "many"}])
    return [replace(record, job=job) for record in records]


def _record(random: Random, case: Case, faulty: float, carries: bool) -> Record:
    kind = random.choices(["pass", "compile", "fail", "error", "unavailable", "odd"], [64, 8, 9, 8, 6, 5])[0]
    message, detail = random.choice(_MESSAGES), random.choice(["", "Traceback: segfault", "\nno such function"])
    action = case.cell.action if case.cell.action != "compile" else random.choice(["compile", "run"])
    if random.random() < 0.05:
        action = random.choice(["run", "emulate", "compile", "", "", "dance"])
    attempts = random.choice([(), (), (), (), ("error",), ("fail", "error:launch")])
    if kind == "fail" and random.random() < 0.5:
        message = _MESSAGES[0]
    if kind == "fail" and random.random() < 0.2:
        action = ""
    if kind in ("error", "fail"):
        late = "install" if len(case.id) % 2 else "launch"  # another random number would make other worlds
        stage = random.choice(["lower", "lower", late]) if kind == "error" else ""
        return Record(case.id, kind, action, stage, message, detail, 1.5, attempts, _metrics(random, case, carries))
    if kind == "unavailable":
        return Record(case.id, "unavailable", message="no such device")
    if kind == "odd":
        return Record(case.id, random.choice(["excluded", "excluded", "missing"]), message=message)
    if kind == "compile" or action == "compile":
        facts = {"artifact.kind": random.choice(["cubin", "cubin", "hip-source", ""])}
        metrics = {
            "artifact.bytes": random.choice([9.0, 9.0, 900.0, 0.0]),
            "artifact.registers": random.choice([32.0] * 9 + [40.0]),
        }
        metrics |= random.choice([*[{"artifact.spills": 0.0}] * 9, {"artifact.spill_bytes": 4.0}, {}])
        return Record(case.id, "pass", "compile", attempts=attempts, facts=facts, metrics=metrics)
    metrics = _metrics(random, case, carries, odd=random.random() < faulty / 2)
    facts = {"inputs.sha256": random.choices(["a" * 16, "b" * 16, ""], [90, 7, 3])[0]}
    facts |= {"process": "own"} if random.random() < 0.98 else {}
    metrics |= {"repeats": 3.0} if metrics and random.random() < 0.98 else {}
    kept = _samples(random, metrics)
    if metrics and random.random() < faulty:
        _spoil(random, metrics, facts)
    return Record(case.id, "pass", action, "", "", "", 1.5, attempts, metrics, facts, samples=kept)


def _samples(random: Random, metrics: dict[str, float]) -> dict[str, Sample]:
    """Return samples of outputs, off by their largest error. Few are off by more, or have a value that cannot be."""
    kept = {}
    for output in [name.removesuffix(".max_abs") for name in metrics if name.endswith(".max_abs")]:
        error = random.choice([-1, 1]) * metrics[f"{output}.max_abs"] * random.choice([1.0] * 30 + [1e6])
        values = np.linspace(-1, 1, 8) + error
        values[0] = random.choice([-1.0] * 60 + [math.nan])
        if random.random() < 0.8:
            kept[output] = Sample("fp64", (8,), "0" * 16, values.tobytes())
    return kept


def _metrics(random: Random, case: Case, carries: bool, *, odd: bool = False) -> dict[str, float]:
    """Return figures of all outputs, perhaps of a variant too. Odd ones are not those that others have."""
    metrics: dict[str, float] = {}
    if case.owed.asserted and random.random() < 0.7:
        return metrics  # a test that compares no numbers
    variants = random.choice([("",), ("",), ("", "@fast"), ("@fast", "", "@")])
    for variant in variants:
        for output in case.owed.outputs or ("h",):
            luck = random.choice([1.0, 1.0, 1.1, 0.9, 3.0])
            error = random.choice([0.0, 1e-7, 2e-7, 5e-7])
            given = {"max_abs": error, "rel_fro": error, "floor_max_abs": 2e-7 * luck, "floor_rel_fro": 2e-7 * luck}
            itemsize = 2.0 if case.axes.get("dtype") == "bf16" else 4.0
            largest = random.choice([1.0] * 9 + [1.0005])
            figures = output_figures(case, **given, itemsize=itemsize, largest=largest)
            figures |= {"misrounded": 0.25, "floor_misrounded": 0.2, "mean_abs": error}
            if odd:
                figures |= output_figures(case, **figures | random.choice(_ODD))
            if random.random() < (0.95 if case.name == "tokens3" else 0.02):
                figures |= {"growth": 0.9, "limit_growth": 2.0, "own_figure": 7.0}
            metrics |= {f"{output}{variant}.{name}": value for name, value in figures.items()}
    metrics = {"elements": sum(v for k, v in metrics.items() if k.endswith(".elements")), **metrics}
    if carries:
        metrics |= {"canary.injected": 6.0, "canary.caught": 6.0}
    if case.name.endswith("1"):
        metrics |= {"time.run": 1e-3, "time.eager": 2e-3, "time.ratio": 0.5, "time.rounds": 9.0}
    return metrics


def _spoil(random: Random, metrics: dict[str, float], facts: dict[str, str]) -> None:
    """Put a fault into a record that says that it passed."""
    names = [name for name in metrics if "." in name and not name.startswith(("canary", "time"))]
    name = random.choice(names)
    output = name.rpartition(".")[0]
    match random.randrange(16):
        case 0:
            del metrics[name]
        case 1 | 14 | 15:
            metrics[name] = random.choice([math.nan, math.inf, math.inf, -1.0, 0.0])
        case 2:
            metrics[name] = metrics[name] * random.choice([0.1, 0.9, 1 + 1e-12, 1 + 1e-6, 1.001, 2.0, 5.0, 100.0])
        case 3:
            for other in [other for other in names if other.startswith(f"{output}.")]:
                del metrics[other]
        case 4:
            metrics["elements"] = random.choice([0.0, metrics["elements"] + 1])
        case 5:
            metrics.pop("elements")
        case 6:
            metrics |= {f"other.{name.rpartition('.')[2]}": 1.0}
        case 7:
            metrics["canary.injected"], metrics["canary.caught"] = 6.0, random.choice([5.0, 7.0, 6.5])
            facts["canary.missed"] = random.choice(["", "h: a NaN"])
        case 8:
            metrics |= {f"{output}.growth": 3.0, f"{output}.limit_growth": random.choice([2.0, math.inf, 3.0])}
        case 9:
            for other in [
                other for other in names if other.rpartition(".")[2] in ("unit", "steps", "largest", "itemsize")
            ]:
                del metrics[other]
        case 10:
            for other in [other for other in names if other.endswith(".max_abs")]:
                del metrics[other]
        case 11:
            facts["canary.missed"] = "h: a NaN"
        case 12:
            metrics.clear()
        case 13:
            metrics |= {f"{output}.max_abs": 1e-7, f"{output}.rel_fro": random.choice([0.0, 1e-9])}


def as_audited(plan: Plan, files: list[list[Record]], presence: Present | None) -> tuple[Judge, dict[int, Record]]:
    """Return the audit's judge of a world, and the records by the identity of the raw results that it has of them."""
    records = [record for file in files for record in file]
    raws: dict[str, list[Raw]] = {}
    of_raws: dict[int, Record] = {}
    for record in records:
        raw = raw_of(record)
        raws.setdefault(record.case, []).append(raw)
        of_raws[id(raw)] = record
    cases = {case.id: _facts(case) for case in plan.cases}
    locks = {
        (case.cell.platform, case.cell.toolchain): PRESENT.toolchains[case.cell.toolchain].sha256 for case in plan.cases
    }
    if presence:
        return Judge(content(plan), cases, raws, Now(NOW, locks, PRESENT.checkout)), of_raws
    return _WithoutPresent(content(plan), cases, raws, Now(datetime(2000, 1, 1, tzinfo=UTC), {})), of_raws


class _WithoutPresent(Judge):
    """Judge as the audit does where nothing is stale, as nobody asks for a present."""

    def _fresh(self, raw: Raw) -> bool:
        return True


def content(plan: Plan) -> dict[str, Any]:
    """Return the part of matrix.yaml that the audit judges by, from which this plan could have been made."""
    cells, owed = {case.cell: None for case in plan.cases}, next(case.owed for case in plan.cases)
    platforms: dict[str, Any] = {}
    for cell in cells:
        platform = platforms.setdefault(cell.platform, {"device": cell.vendor, "toolchains": {}})
        entry = {"toolchain": cell.toolchain, "runs": cell.action != "compile", "emulated": cell.action == "emulate"}
        platform["toolchains"][cell.toolchain] = entry
    whole = next((case.owed for case in plan.cases if not case.owed.asserted), owed)
    directions = [direction for direction in ("forward", "backward") if whole.outputs]
    limits: dict[str, Any] = {name: getattr(owed, name) for name in ("factor", "rounded", "ulps")}
    limits["caps"] = dict.fromkeys(("forward", "backward", "tests"), owed.cap)
    if whole.growth:
        limits["growth"] = dict(zip(("sums", "others"), whole.growth, strict=True))
    return {
        "accuracy": limits,
        "ops": {next(iter(cells)).op: {"sums": whole.sums, "outputs": dict.fromkeys(directions, whole.outputs)}},
        "platforms": {name: {**of, "toolchains": [*of["toolchains"].values()]} for name, of in platforms.items()},
        "toolchains": {name: {"requires": pins.requires} for name, pins in PRESENT.toolchains.items()},
        "resources": [entry.model_dump() for entry in RESOURCES],
        "exclusions": _rules(plan, [_EXCLUSION], lambda case: [case.exclusion]),
        "expectations": _rules(plan, _EXPECTATIONS, lambda case: case.expectations),
    }


def _rules(plan: Plan, rules: list[Any], of: Callable[[Case], Iterable[Any]]) -> list[dict[str, Any]]:
    """Return the entries of a section, each with the ids of its cases."""
    return [
        {**rule.model_dump(), "where": {"id": [case.id for case in plan.cases if rule in of(case)]}} for rule in rules
    ]


def _facts(case: Case) -> Facts:
    cell = case.cell
    place = {"platform": cell.platform, "target": cell.target, "toolchain": cell.toolchain}
    return {**case.axes, **place, "op": cell.op, "direction": cell.direction, "id": case.id}


def raw_of(record: Record) -> Raw:
    """Return a record as the audit reads it."""
    subjects: dict[str, dict[str, float]] = {}
    for key, value in record.metrics.items():
        subject, _, figure = key.rpartition(".")
        subjects.setdefault(subject, {})[figure] = value
    outputs = {subject: values for subject, values in subjects.items() if subject not in ("", *NOT_OUTPUTS)}
    same = {name: getattr(record, name) for name in ("case", "outcome", "action", "stage", "message", "seconds", "run")}
    return Raw("a test", **same, text=record.text, attempts=tuple(record.attempts), metrics=dict(record.metrics),
               outputs=outputs, subjects=subjects, facts=dict(record.facts), job=dict(record.job),
               samples={name: (s.dtype, list(s.shape), s.bits) for name, s in record.samples.items()})  # fmt: skip
