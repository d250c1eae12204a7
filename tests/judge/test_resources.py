"""The judge and the audit hold code to the limits of matrix.yaml."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from random import Random

import pytest
from common import job_of, write_results
from judges import compare
from loops import at_least
from pydantic import ValidationError

from kernel_matrix.audit.occupancy import occupancy
from kernel_matrix.audit.raw import _raw
from kernel_matrix.audit.states import Judge, Now
from kernel_matrix.base.errors import UserError
from kernel_matrix.ci.loosened import loosened
from kernel_matrix.config.model import Resource
from kernel_matrix.config.plan import Job, Plan, plan
from kernel_matrix.config.reads import Checkout
from kernel_matrix.config.rule_state import facts_of
from kernel_matrix.job.ahead.targets import TARGETS
from kernel_matrix.store.database import database, rows
from kernel_matrix.store.query import opened
from kernel_matrix.store.record import Record

SOURCE = "chosen for the tests of the harness"
TRITON = {"toolchain": "triton-3.7", "target": "sm_90"}


def entry(where=TRITON, **limits):
    return Resource(where={**where}, source=SOURCE, **limits)


@pytest.fixture(scope="module")
def cell(matrix):
    """Return the cases of one cell in fp32 and bf16."""
    cases = plan(matrix, "quick").cases
    return [one for one in cases if one.cell.id == "cuda/sm_90/triton-3.7/mhc_pre.forward" and not one.timed]


def compiled(case, kind="cubin", **needs) -> Record:
    metrics = {"artifact.bytes": 900.0, **{f"artifact.{name}": float(value) for name, value in needs.items()}}
    job = {**job_of(case), "version.triton": "3.6.0"}
    return Record(case.id, "pass", "compile", metrics=metrics, facts={"artifact.kind": kind}, job=job)


def both(matrix, cases, records, entries, root):
    """Return the judge's verdict of each case, and the states that the audit allows."""
    job = Job("cuda", "triton-3.7", tuple(cases))
    verdicts = compare(Plan("package", "quick", (job,)), records, resources=entries, root=root).verdicts
    raws = {case.id: [] for case in cases}
    for number, one in enumerate(records):
        raws[one.case].append(
            _raw(metrics=one.metrics, file="", case=one.case, outcome=one.outcome, action=one.action, stage=one.stage,
                 message="", text="", seconds=0.0, attempts=(), facts=one.facts, job=one.job, run=str(number))
        )  # fmt: skip
    content = {**matrix.model_dump(), "accuracy": matrix.accuracy.limits(), "exclusions": [], "expectations": []}
    content["resources"] = [one.model_dump() for one in entries]
    now = Now(datetime(2026, 5, 1, tzinfo=UTC), {}, Checkout(matrix, root))
    audit = Judge(content, {case.id: facts_of(case) for case in cases}, raws, now)
    return [(one, {state for state, _ in audit.allowed(one.case.id)}) for one in verdicts]


RAN, CODE, SMALL = "ran", {"registers": 168, "spill_bytes": 0, "shared_bytes": 100}, {"registers": 40}
NAMED = {"registers": 168, "a_registers": 40, "b_registers": 168, "a_bytes": 1, "b_bytes": 1, "b_line": 12}
SOURCE_ONLY = {"kind": "hip-source"}
# The results of a case, the limits, and what both make of them.
LIMITED = [
    ([CODE], [{"registers": 168, "spills": 0, "shared": "1 KiB", "code": 900}], "compiled", ""),
    ([CODE], [{"registers": 167}], "fail", "the code needs 168 registers; matrix.yaml allows 167 (resources["),
    ([{**CODE, "spill_bytes": 4}], [{"spills": 0}], "fail", "needs 4 spills"),
    ([{"spilled_registers": 1}], [{"spills": 0}], "fail", "needs 1 spills"),
    ([NAMED], [{"registers": 167}], "fail", "the code of b (line 12) needs 168 registers"),
    ([CODE], [{"registers": 100}, {"registers": 168}], "compiled", ""),
    ([CODE], [{"registers": 168}, {"spills": 0}, {"registers": 100}], "fail", "allows 100"),
    ([CODE, RAN], [{"registers": 100}], "fail", "needs 168 registers"),
    ([CODE, RAN], [{"registers": 168}], "pass", ""),
    ([RAN], [{"registers": 168, "spills": 0}], "pass", ""),
    ([{RAN: True, **CODE}], [{"registers": 168}], "pass", ""),
    ([{RAN: True, **CODE}], [{"registers": 167}], "fail", "the code needs 168 registers"),
    ([{RAN: True, **SMALL}], [{"shared": 0}], "error", "owe shared of the code"),
    ([SMALL], [{"shared": 0, "spills": 0}], "error", "owe shared, spills of the code"),
    ([SOURCE_ONLY], [{"registers": 1, "code": 1}], "lowered", ""),
    ([SMALL, CODE], [{"registers": 100}], "fail", "needs 168 registers"),
    ([SMALL], [{"registers": 30, "op": "sinkhorn"}], "compiled", ""),
    ([SMALL], [{"registers": 30, "op": "mhc_pre"}], "fail", "allows 30"),
]


def test_the_judge_and_the_audit_hold_code_to_its_limits(matrix, cell, passing, tmp_path):
    records, entries = [], []
    for case, (results, limits, *_) in zip(cell, LIMITED, strict=False):
        ran = replace(passing(case), job={**job_of(case), "version.triton": "3.6.0"})
        for needs in results:
            figures = {} if needs == RAN else {name: value for name, value in needs.items() if name != RAN}
            code = compiled(case, **figures)
            of_run = replace(ran, metrics=ran.metrics | code.metrics, facts=ran.facts | code.facts)
            records.append(ran if needs == RAN else of_run if RAN in needs else code)
        for named in limits:
            op = {"op": named["op"]} if "op" in named else {}
            limit = {name: value for name, value in named.items() if name != "op"}
            entries.append(entry({**TRITON, **case.axes, **op}, **limit))
    found = both(matrix, cell[: len(LIMITED)], records, entries, tmp_path)
    for (verdict, audited), (results, limits, state, words) in zip(found, LIMITED, strict=True):
        assert (verdict.state, audited) == (state, {state}), (results, limits, verdict.reason)
        assert words in verdict.reason
        assert verdict.evidence == (
            "planned"
            if state == "error"
            else "ran"
            if any(RAN in needs for needs in results)
            else state
            if state == "lowered"
            else "compiled"
        )


# What the code of a case needed, what it needs, and what both make of it.
GROWN = [
    ({"registers": 100}, {"registers": 105}, "compiled"),
    ({"registers": 100}, {"registers": 106}, "fail"),
    ({"registers": 100, "spills": 0}, {"registers": 100, "spills": 1}, "fail"),
    ({"registers": 100, "spills": 0}, {"registers": 100}, "error"),
    ({}, {"registers": 106}, "compiled"),
]


@pytest.mark.slow
def test_the_judge_and_the_audit_hold_code_to_its_last_values(matrix, cell, tmp_path):
    pairs = list(zip(cell, GROWN, strict=False))
    for started, needs in (("2026-02-01", None), ("2026-01-01", {"registers": 1, "spills": 9})):
        last = [compiled(case, **(needs or before)) for case, (before, *_) in pairs]
        job = {**last[0].job, "job": "cuda.triton-3.7", "started": f"{started}T00:00:00Z"}
        write_results(tmp_path / "last", [replace(one, job=job) for one in last])
    records = [compiled(case, **needs) for case, (_, needs, _) in pairs]
    found = both(matrix, cell[: len(GROWN)], records, [entry(growth=1.05, last="last")], tmp_path)
    assert [(verdict.state, audited) for verdict, audited in found] == [(state, {state}) for *_, state in GROWN]
    assert found[1][0].reason == (
        "the code needs 106 registers; matrix.yaml allows 105 (resources[0]), and its last value is 100"
    )


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({}, "this entry has no limit"),
        ({"growth": 1.05}, "come together"),
        ({"shared": "100 kB"}, "valid integer"),
        ({"registers": -1}, "greater than or equal to 0"),
    ],
)
def test_an_entry_without_a_limit_that_can_be_held_is_refused(limits, words):
    with pytest.raises(ValidationError, match=words):
        entry(**limits)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{ where: { toolchain: god }, spills: 0", "'god'"),
        ("{ where: { toolchain: good }, spill: 0", "matrix.yaml:.*unknown key 'spill'"),
        ("{ where: { toolchain: good, tokens: 99 }, spills: 0", "no case has these values together"),
        ("{ where: { toolchain: good }, growth: 1.05, last: docs/results", "'docs/results' has no tables"),
    ],
)
def test_a_limit_that_holds_for_nothing_is_a_fault_of_matrix_yaml(doubles, entry, words):
    doubles.edit("bench:\n", f"resources: [{entry}, source: {SOURCE} }}]\nbench:\n")
    with pytest.raises(UserError, match=words.replace("[", r"\[")):
        _ = doubles.matrix


FIRST = "{ where: { toolchain: good }, spills: 0, registers: 100, source: " + SOURCE + " }"


@pytest.mark.parametrize(
    ("old", "new", "row"),
    [
        ("registers: 100", "registers: 90", None),
        ("registers: 100", "registers: 101", ("resources[0].registers", "the limit is higher", "100", "101", 3)),
        ("registers: 100, ", "", ("resources[0].registers", "the limit is gone", "100", "-", 3)),
        ("good }, sp", "good, tokens: [1, 2] }, sp", ("resources[0].spills", "the limit is gone", "0", "-", 1)),
        (FIRST, FIRST + ", " + FIRST.replace("good }, spills: 0", "good, tokens: 1 }, spills: 8 B"),
         ("resources[1].spills", "the limit is higher", "0", "8", 1)),
    ],
)  # fmt: skip
def test_a_looser_limit_of_resources_is_a_row(doubles, old, new, row):
    doubles.edit("bench:\n", f"resources: [{FIRST}]\nbench:\n")
    before = doubles.matrix
    doubles.edit(old, new)
    after = doubles.matrix
    rows = [
        (one.place, one.change, one.before, one.after, len(one.cases))
        for one in loosened(before, plan(before, "full"), after, plan(after, "full"))
    ]
    assert row in rows if row else not rows


def test_limits_of_resources_make_no_result_stale(doubles):
    before = Checkout(doubles.matrix, doubles.root).facts_of("here", "good", "venv", ["double"])
    doubles.edit("bench:\n", f"resources: [{FIRST}]\nbench:\n")
    assert Checkout(doubles.matrix, doubles.root).facts_of("here", "good", "venv", ["double"]) == before


@pytest.mark.parametrize(
    ("target", "registers", "threads", "shared", "expected"),
    [
        ("sm_90", 32, 128, 0, 1.0),  # 64 warps of 64
        ("sm_90", 255, 32, 0, 8 / 64),  # 256 of 512 registers of a lane: two warps of each scheduler
        ("sm_90", 168, 128, 0, 12 / 64),  # 512 // 168: three
        ("sm_90", 40, 256, 96 << 10, 16 / 64),  # 2 blocks of 97 KiB in 228
        ("sm_75", 16, 32, 0, 16 / 32),  # no more than 16 blocks
        ("sm_86", 64, 1024, 0, 32 / 48),  # the second block of 32 warps finds no place among 48
        ("gfx942", 284, 256, 64, 4 / 32),  # 512 // 288: one wave of each scheduler
        ("gfx1100", 97, 256, 0, 48 / 64),  # 1536 // 120: twelve
        ("gfx1030", 16, 32, 0, 1.0),  # blocks of one wave have no barrier
        ("gfx90a", 16, 128, 0, 1.0),
        ("x86-64-v3", 16, 128, 0, None),
        ("sm_90", 0, 128, 0, None),
    ],
)
def test_the_occupancy_is_that_of_the_published_tables(target, registers, threads, shared, expected):
    code = {"registers": registers, "threads": threads, "shared_bytes": shared}
    assert occupancy(target, code) == expected


def test_the_occupancy_of_a_query_is_that_of_the_audit():
    random = Random(1)
    with database() as connection:
        for target in at_least(20, TARGETS):
            code = {
                "registers": float(random.randint(1, 255)),
                "threads": float(random.choice([32, 96, 128, 640, 1024])),
                **random.choice([{}, {"shared": 100.0}, {"shared_bytes": 65536.0}]),
            }
            figures = {f"artifact.{name}": value for name, value in code.items()}
            question = "SELECT occupancy_of(?, ?::MAP(VARCHAR, DOUBLE))"
            assert rows(connection, question, [target, figures]) == [(occupancy(target, code),)], (target, code)


def test_the_view_of_cells_has_the_least_occupancy(cell, tmp_path):
    records = [compiled(cell[0], registers=32, threads=128), compiled(cell[1], registers=255, threads=32)]
    job = {**records[0].job, "job": "cuda.triton-3.7"}
    write_results(tmp_path, [replace(record, job=job) for record in records])
    with opened([tmp_path]) as asked:
        assert asked.connection.execute("SELECT occupancy FROM cells").fetchall() == [(8 / 64,)]
