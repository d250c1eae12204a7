"""Every figure of a cell and of its cases follows from the records that decide them: the audit counts each anew."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from judges import judged, write_site
from shown import Page
from together import first_are_quick
from worlds import raw_of, world

from kernel_matrix.audit import figures, page
from kernel_matrix.store.record import Record


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_are_quick(1, range(3)))
def test_the_cells_of_worlds_at_random_have_the_figures_of_their_records(matrix, tmp_path, seed):
    plan, files, presence = world(Random(seed))
    sections = (matrix.ops, matrix.toolchains, matrix.platforms)
    op, toolchain, platform = (next(iter(section.values())) for section in sections)
    platforms = dict.fromkeys((case.cell.platform for case in plan.cases), platform)
    toolchains = {"one": toolchain, "two": toolchain}
    matrix = matrix.model_copy(update={"ops": {"op": op}, "toolchains": toolchains, "platforms": platforms})
    records = [with_other_figures(record) for file in files for record in file]
    write_site(matrix, plan, records, tmp_path, present=presence)
    with judged(plan, records, presence) as results:
        deciding = {verdict.case.id: verdict.record for verdict in results.verdicts() if verdict.record}
    dtypes = {case.id: str(case.axes.get("dtype", "any")) for case in plan.cases}
    cells = Page(tmp_path).cells
    assert {name for cell in cells.values() for name in cell["results"]} == {case.name for case in plan.cases}
    for name, cell in cells.items():
        results = [*cell["results"].values()]
        raws = {case: raw_of(deciding[case]) for r in results if (case := f"{name}/{r['name']}") in deciding}
        assert list(figures.of_cell({**cell, "results": results}, [*raws.values()], dtypes)) == [], name
        for result in results:
            if raw := raws.get(f"{name}/{result['name']}"):
                assert list(figures.of_case(result, raw)) == [], raw.case


def test_a_text_that_many_cases_share_is_read_once():
    """A job's facts may name all tests of a suite, and each of its cases has them."""
    job = json.dumps({"tests": [f"test_{number}" for number in range(1000)]})
    table = pa.table({"job": pa.array([job, None, job]).dictionary_encode(), "seconds": [1.0, 2.0, 3.0]})
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    first, absent, last = page._rows(base64.b64encode(stream.getvalue()).decode())
    assert [first["seconds"], absent, last["seconds"]] == [1.0, {"job": None, "seconds": 2.0}, 3.0]
    assert first["job"] == job
    assert first["job"] is last["job"]


def with_other_figures(record: Record) -> Record:
    """Return a record with figures that have no column of their own, and what code it made."""
    if record.action != "run":
        return record
    others = {f"{name.partition('.')[0]}.other": 1.5 for name in record.metrics if name.endswith(".max_abs")}
    return replace(record, metrics={**record.metrics, **others, "artifact.registers": 12.0})
