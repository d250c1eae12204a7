"""The page and compat.json show who agrees with whom."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from common import few_cells
from judges import write_site
from shown import Page

from kernel_matrix.config.plan import Plan, plan
from kernel_matrix.job.inputs import normal
from kernel_matrix.job.sample import take
from kernel_matrix.store import samples
from kernel_matrix.store.record import Record

CPU = "cpu-llvm/x86-64-v3"


@pytest.fixture(scope="module")
def planned(matrix) -> Plan:
    return few_cells(plan(matrix, "quick"))


def with_samples(record: Record, steps: int) -> Record:
    """Return the record with a sample of an output that is off by so many steps of fp32."""
    key = record.case.split("/", 3)[-1]
    array = (normal(key, (30, 30)) + 5).astype(np.float32)
    array.view(np.int32)[...] += steps
    return replace(
        record, facts={"inputs.sha256": "ab" * 8}, samples=samples.of_entry({"out": take(key, "out", array)})
    )


@pytest.fixture(scope="module")
def site(matrix, planned, passing, tmp_path_factory):
    """Write the site of results on the CPU: TVM's are 40 steps off, and inductor leaves no samples."""
    records = []
    for case in planned.cases:
        if case.id.startswith(CPU) and not case.timed:
            record = passing(case)
            steps = 40 if case.cell.toolchain == "tvm-0.27" else 0
            records.append(record if case.cell.toolchain == "inductor" else with_samples(record, steps))
    other = next(r for r in records if r.case.startswith(f"{CPU}/tilelang-0.1.8/sinkhorn.forward"))
    records[records.index(other)] = replace(other, facts={"inputs.sha256": "cd" * 8})
    folder = tmp_path_factory.mktemp("site")
    write_site(matrix, planned, records, folder)
    return folder


@pytest.mark.slow
def test_compat_json_has_members_groups_pairs_and_the_odd_one_out(site):
    agreement = json.loads((site / "compat.json").read_text())["agreement"]
    table = next(
        t for t in agreement["tables"] if (t["op"], t["direction"], t["dtype"]) == ("expand", "forward", "fp32")
    )
    names = [member["toolchain"] for member in table["members"]]
    assert names == ["reference", "tvm-0.27", "tilelang-0.1.15", "cpp", "tilelang-0.1.8", "triton-3.7"]
    assert table["groups"] == [[0, 2, 3, 4, 5], [1]]
    assert [member["odd"] is not None for member in table["members"]] == [False, True, False, False, False, False]
    pair = next(p for p in table["pairs"] if (p["one"], p["other"]) == (0, 1))
    assert pair["outputs"] == {"out": {"median": 40, "p99": 40, "largest": 40}}
    assert pair["identical"] == 0
    assert pair["first"]["index"] == [0, 0]
    assert pair["first"]["one"] != pair["first"]["other"]
    assert table["says"][0] == (
        f"These 5 agree bit for bit: {', '.join(f'{CPU}/{name}' for name in names if name != 'tvm-0.27')}."
    )
    assert table["says"][1].startswith(
        f"Odd one out: {CPU}/tvm-0.27, in {pair['cases']} of {pair['cases']} cases (out)."
    )


@pytest.mark.slow
def test_the_page_has_the_agreement_of_compat_json_and_marks_the_odd_cells(site):
    page = Page(site)
    assert page.value("agreement") == json.loads((site / "compat.json").read_text())["agreement"]
    odd = {name for name, row in page.rows.items() if row["odd"]}
    assert f"{CPU}/tvm-0.27/expand.forward" in odd
    assert {name.split("/")[2] for name in odd} == {"tvm-0.27"}


@pytest.mark.slow
def test_the_summary_names_the_odd_ones_out(site):
    summary = (site / "summary.md").read_text()
    assert re.search(rf"- expand forward fp32: Odd one out: {CPU}/tvm-0.27, in (\d) of \1 cases \(out\)\.", summary)


@pytest.mark.slow
def test_the_page_names_what_was_not_compared(site):
    agreement = Page(site).value("agreement")
    assert agreement["without"] == [f"{CPU}/inductor"]
    [refused] = agreement["refused"]
    assert f"{CPU}/tilelang-0.1.8: other inputs (cdcdcdcdcdcdcdcd) than most have" in refused


@pytest.mark.slow
def test_a_report_without_samples_says_so_and_has_no_table(matrix, planned, passing, tmp_path):
    records = [passing(case) for case in planned.cases if case.cell.id.startswith(f"{CPU}/reference")]
    write_site(matrix, planned, records, tmp_path)
    agreement = Page(tmp_path).value("agreement")
    assert (agreement["without"], agreement["tables"]) == ([f"{CPU}/reference"], [])
