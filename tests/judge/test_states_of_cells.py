"""A cell, and a lane, is as bad as the worst of what was tried; what is skipped hides nothing of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from judges import write_site
from shown import Page
from test_contradictions import ASSERTED, JOB, held, passed
from worlds import _EXCLUSION, _EXPECTATIONS

from kernel_matrix.audit import figures
from kernel_matrix.config.plan import Job, Plan
from kernel_matrix.report.difference import difference
from kernel_matrix.report.document import CellOutline, Outline, RunOutline
from kernel_matrix.store.record import Record

SKIPPED = Record(ASSERTED.id, "unavailable", message="skipped: it is for Windows", job=JOB)
COMPILED = {"action": "compile", "metrics": {"artifact.bytes": 9.0}}
RESULTS = {
    "held": held(),
    "pass": passed(ASSERTED),
    "compiled": held(**COMPILED, facts={"artifact.kind": "cubin"}),
    "lowered": held(**COMPILED, facts={"artifact.kind": "hip-source"}),
    "skipped": SKIPPED,
    "no device": replace(SKIPPED, message="no such device", job={}),
    "fail": held(outcome="fail", message="assert 1 == 2"),
    "no GPU": held(outcome="error", stage="launch", message="RuntimeError: no CUDA GPUs are available"),
    "expected": held(outcome="error", stage="lower", message="no such function"),
    "flaky": held(attempts=("error:launch",)),
    "missing": None,
    "left out": None,
}
CELLS = {
    ("held", "held", "held", "skipped"): ("held", "held"),
    ("skipped", "held"): ("held", "held"),
    ("held", *["skipped"] * 19): ("held", "held"),
    ("pass", "skipped", "held"): ("held", "held"),
    ("pass", "no device"): ("pass", "ran"),
    ("compiled", "skipped"): ("compiled", "compiled"),
    ("no device", "lowered", "compiled"): ("lowered", "lowered"),
    ("expected", "pass", "skipped"): ("known", "planned"),
    ("flaky", "skipped", "held"): ("flaky", "held"),
    # What is red stays red, and what nobody tried stays so.
    ("fail", "skipped"): ("fail", "held"),
    ("no GPU", "skipped", "held"): ("error", "planned"),
    ("missing", "skipped"): ("missing", "planned"),
    ("missing", "skipped", "held"): ("missing", "planned"),
    ("skipped", "skipped"): ("unavailable", "planned"),
    ("no device",): ("unavailable", "planned"),
    ("left out", "no device"): ("unavailable", "planned"),
    ("left out", "left out"): ("excluded", "planned"),
    ("left out", "skipped", "held"): ("held", "held"),
}


@pytest.fixture(scope="module")
def page(matrix, tmp_path_factory):
    """Return the page of all these cells: operator N on target N; in one lane all, with another toolchain."""
    cases, records = [], []
    for number, results in enumerate(CELLS):
        for toolchain, target in (("two", f"t{number}"), ("one", "all")):
            cell = replace(ASSERTED.cell, op=f"op{number}", toolchain=toolchain, target=target)
            for place, name in enumerate(results):
                rules = tuple(_EXPECTATIONS[:1]) if name == "expected" else ()
                exclusion = _EXCLUSION if name == "left out" else None
                case = replace(ASSERTED, cell=cell, name=f"tokens{place}", expectations=rules, exclusion=exclusion)
                cases.append(case)
                if record := RESULTS[name]:
                    job = {**record.job, "job": f"cuda.{toolchain}", "toolchain": toolchain, "device.targets": target}
                    records.append(replace(record, case=case.id, job=job if record.job else {}))
    names = ("one", "two")
    jobs = tuple(Job("cuda", name, tuple(one for one in cases if one.cell.toolchain == name)) for name in names)
    ops, toolchains = (next(iter(section.values())) for section in (matrix.ops, matrix.toolchains))
    matrix = matrix.model_copy(
        update={"ops": {f"op{n}": ops for n in range(len(CELLS))}, "toolchains": dict.fromkeys(names, toolchains)}
    )
    site = tmp_path_factory.mktemp("cells") / "site"
    write_site(matrix, Plan("package", "quick", jobs), records, site)
    return Page(site)


@pytest.mark.parametrize("number", range(len(CELLS)))
def test_a_cell_has_the_state_of_what_was_tried(page, number):
    results, expected = list(CELLS.items())[number]
    cell = page.cells[f"cuda/t{number}/two/op{number}.tests"]
    assert (cell["state"], cell["evidence"]) == expected, results
    assert cell["planned"] == len(results)
    assert cell["cases"].get("unavailable", 0) == sum(name in ("skipped", "no device") for name in results)
    (lane,) = [lane for lane in page.overview["lanes"] if lane["target"] == f"t{number}"]
    assert (lane["state"], lane["evidence"]) == expected


def test_the_audit_counts_the_same(page):
    """It counts by its own code from the cases, and finds a state that hides what ran."""
    cells = {name: {**cell, "results": [*cell["results"].values()]} for name, cell in page.cells.items()}
    for cell in cells.values():
        assert [one for one in figures.of_cell(cell, [], {}) if one[0] in ("state", "evidence")] == []
    for lane in page.overview["lanes"]:
        mine = [cell for name, cell in cells.items() if name.startswith(f"cuda/{lane['target']}/{lane['toolchain']}/")]
        assert [one for one in figures.of_lane(lane, mine) if one[0] in ("state", "evidence")] == []
    hidden = {**cells["cuda/t0/two/op0.tests"], "state": "unavailable", "evidence": "planned"}
    found = [one for one in figures.of_cell(hidden, [], {}) if one[0] in ("state", "evidence")]
    assert found == [("state", "unavailable", "held"), ("evidence", "planned", "held")]


def test_a_test_that_is_skipped_now_is_named_by_the_difference():
    """The state of its cell is the same as before."""
    run = RunOutline(tier="quick", created="2026-06-01T00:00:00Z")
    before, now = (
        Outline(schema_version=2, run=run, cells=(CellOutline(id="a", state="held", evidence="held", cases=cases),))
        for cases in ({"held": 4}, {"held": 3, "unavailable": 1})
    )
    (changed,) = difference(before, now).other
    assert (changed.before, changed.after) == ("held (held)", "held (held, 1 unavailable)")
    assert difference(now, now).other == ()
