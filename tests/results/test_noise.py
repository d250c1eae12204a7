"""An accuracy is shown as noise ratio: the error of the kernel over the baseline's error in the same dtype."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import judges
import pytest
from common import few_cells
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from judges import write_site
from records import TRITON
from shown import Page

from kernel_matrix.config.plan import plan
from kernel_matrix.report import terminal
from kernel_matrix.report.document import Noise
from kernel_matrix.report.sentences import ratio_in_short
from kernel_matrix.results import noise as noises
from kernel_matrix.results import repeat
from kernel_matrix.store.record import Record

EMULATED = "cpu-llvm/x86-64-v3/triton-3.7/mhc_pre.forward"


def figures(output="out", error=2e-7, floor=1e-7, elements=100.0, **others):
    named = {"rel_fro": error, "floor_rel_fro": floor, "elements": elements, **others}
    return {f"{output}.{name}": value for name, value in named.items()}


def record(case="c", outcome="pass", **kinds):
    """Return a record with one output, or with those that ``outputs`` maps to their figures."""
    outputs = kinds.pop("outputs", {"out": kinds})
    metrics = {"elements": 100.0}
    for output, named in outputs.items():
        metrics |= figures(output, **named)
        metrics |= {f"{output}.limit_rel_fro": 1e-6, f"{output}.max_abs": 1e-7, f"{output}.limit_max_abs": 1e-6}
    return Record(case, outcome, "run", metrics=metrics, job={"device": "a GPU"})


@pytest.fixture(scope="module")
def planned(matrix):
    return few_cells(plan(matrix, "quick"))


@pytest.fixture
def cases(planned):
    return [case for case in planned.cases if case.cell.id == TRITON]


@pytest.fixture
def make(matrix, planned, tmp_path):
    """Write the site of some records and return (the document's cell, the site's folder)."""

    def write(*records):
        whole = write_site(matrix, planned, records, tmp_path / "site")
        return next(cell for cell in whole.cells if cell.id == TRITON), tmp_path / "site"

    return write


@pytest.fixture
def pooled(planned, cases):
    """Return the noise of the only output of some records, which are of cases of one dtype and cell."""

    def noise_of(*records):
        of_dtype = [case for case in cases if case.axes["dtype"] == cases[0].axes["dtype"]]
        named = [replace(one, case=case.id) for one, case in zip(records, of_dtype, strict=False)]
        assert len(named) == len(records)
        with judges.judged(planned, named) as results:
            [by_output] = results.noise()[TRITON].values()
            return by_output["out"]

    return noise_of


def test_the_ratio_is_made_from_the_two_errors_and_not_taken_from_the_record():
    forged = record(error=3e-7, floor=1e-7)
    forged = replace(forged, metrics={**forged.metrics, "out.noise_ratio": 0.1})
    assert noises.ratios(forged) == {"out": pytest.approx(3.0)}


@pytest.mark.slow
def test_an_output_whose_baseline_is_exact_has_no_ratio(pooled):
    assert noises.ratios(record(floor=0.0)) == {}
    assert pooled(record(floor=0.0)).ratio is None


@pytest.mark.slow
def test_a_case_of_few_elements_does_not_decide(pooled):
    many = [record(error=1e-7, elements=1e6), record(error=1.28e-6, elements=1.0)]
    assert pooled(*many).ratio == pytest.approx(1.08, abs=0.01)


@pytest.mark.slow
def test_a_large_case_does_not_hide_a_small_one(pooled):
    both = [record(error=1e-7, elements=4e6), record(error=1e-6, elements=1400.0)]
    assert pooled(*both).ratio == pytest.approx(math.sqrt(101 / 2))


@pytest.mark.slow
def test_a_case_that_is_computed_less_exactly_on_purpose_does_not_hide_the_others(pooled):
    """The baseline's own error is 1e-3 where both use tf32. An error of 1e-3 elsewhere must show."""
    tf32, fp32 = record(error=1e-3, floor=1e-3), record(error=1e-3, floor=1e-7)
    assert pooled(tf32, fp32).ratio > 1000


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(of_records=st.lists(st.lists(st.floats(), min_size=4, max_size=4), min_size=1, max_size=2))
@example(of_records=[[0.0, 0.0, 0.0, -1.0], [0.0, 0.0, 1.0, 0.5]])
@example(of_records=[[1.0, 1.0, 0.0, 0.0], [math.inf, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]])
@pytest.mark.slow
def test_no_figure_of_a_record_stops_the_report(of_records, pooled):
    names = ("error", "floor", "elements", "misrounded")
    figures = [dict(zip(names, values, strict=True)) for values in of_records]
    made = [record(itemsize=2.0, floor_misrounded=0.1, **of_one) for of_one in figures]
    assert all(ratio >= 0 for one in made for ratio in noises.ratios(one).values())
    noise = pooled(*made)
    assert noise.ratio is None or noise.ratio >= 0
    assert noise.misrounded is None or noise.misrounded >= 0


def test_a_result_with_nan_is_never_as_exact_as_the_baseline():
    assert noises.ratios(record(error=0.0, nan=1.0)) == {"out": math.inf}


@pytest.mark.slow
def test_misrounded_is_shown_of_outputs_that_are_narrower_than_fp32(pooled):
    shares = {"misrounded": 0.3, "floor_misrounded": 0.2}
    narrow, wide = (pooled(record(itemsize=size, **shares)) for size in (2.0, 4.0))
    assert (narrow.misrounded, narrow.floor_misrounded) == (pytest.approx(0.3), pytest.approx(0.2))
    assert (wide.misrounded, wide.floor_misrounded) == (None, None)
    assert noises.in_words(record(itemsize=2.0, **shares)) == "out 2 (misrounded 30.00%, baseline 20.00%)"


@pytest.mark.slow
def test_every_report_shows_the_noise_ratio(matrix, planned, cases, make):
    case = next(case for case in cases if case.axes["dtype"] == "bf16")
    outputs = {"h_in": {"error": 2.5e-7, "itemsize": 2.0, "misrounded": 0.125, "floor_misrounded": 0.0625}, "r": {}}
    result = record(case.id, "fail", outputs=outputs)
    cell, site = make(result)
    assert cell.noise["bf16"]["h_in"] == Noise(
        ratio=2.5, misrounded=0.125, floor_misrounded=0.0625, elements=100, cases=1, evidence="ran"
    )
    assert list(cell.noise["bf16"]) == ["h_in", "r"], "the least exact first"
    assert cell.accuracy.noise_ratio == 2.5
    compat = json.loads((site / "compat.json").read_text())
    assert next(one for one in compat["cells"] if one["id"] == TRITON)["noise"]["bf16"]["h_in"]["ratio"] == 2.5
    assert "| bf16 h&#95;in 2.50 × (misrounded 12 %, baseline 6.2 %) |" in (site / "summary.md").read_text()
    page = Page(site)
    assert page.rows[TRITON]["noise_by_dtype"]["bf16"] == page.rows[TRITON]["noise"] == 2.5
    assert page.rows[TRITON]["noise_output"]["bf16"] == "h_in"
    assert page.cells[TRITON]["results"][case.name]["outputs"]["h_in"]["noise_ratio"] == 2.5
    with judges.judged(planned, [result]) as judged:
        lines = list(terminal.summary(matrix, judged, tuple))
    over = f"noise ratio (the error over that of {matrix.package.baseline}), bf16: of a cell at most 2.5"
    assert f"{over} (h_in over the cases of {TRITON})" in lines
    assert "  noise ratio: h_in 2.5 (misrounded 12.50%, baseline 6.25%), r 2" in lines
    assert any(line.startswith("noise ratio: h_in 2.5") for line in repeat.facts(matrix, TRITON, result))


@pytest.mark.slow
def test_the_page_has_the_noise_ratio_of_every_dtype_that_was_measured(cases, make):
    by_dtype = {case.axes["dtype"]: case for case in cases}
    errors = (4e-8, 1e-7, 9e-7)
    _, site = make(*(record(case.id, error=error) for case, error in zip(by_dtype.values(), errors, strict=False)))
    page = Page(site)
    assert set(page.overview["cells"]["noise_by_dtype"]) == set(by_dtype)
    ratios = page.rows[TRITON]["noise_by_dtype"]
    assert sorted(ratios) == sorted(by_dtype)
    assert page.rows[TRITON]["noise"] == max(ratios.values())
    others = [row for name, row in page.rows.items() if name != TRITON]
    assert {ratio for row in others for ratio in row["noise_by_dtype"].values()} == {None}


@pytest.mark.slow
def test_a_cell_of_the_page_says_output_and_evidence_of_its_noise(planned, passing, make):
    case = next(case for case in planned.cases if case.cell.id == EMULATED and case.axes["dtype"] == "fp32")
    _, site = make(passing(case, h_res={"rel_fro": 1.7e-7, "floor_rel_fro": 1e-7}))
    page = Page(site)
    row = page.rows[EMULATED]
    assert (row["noise_by_dtype"]["fp32"], row["noise_output"]["fp32"]) == (1.7, "h_res")
    assert page.cells[EMULATED]["noise"]["fp32"]["h_res"]["evidence"] == "emulated"
    assert row["state"] == "missing", "not all of its cases are here"


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(0, "0.00"), (0.5, "0.50"), (1, "1.00"), (1.1, "1.10"), (1.11, "1.11"), (12.83, "12.8"), (345.6, "346"),
     (1e30, "1e30"), (123456.0, "1e5"), ("inf", "∞"), ("nan", "∞")],
)  # fmt: skip
def test_a_ratio_is_short(ratio, text):
    assert ratio_in_short(ratio) == text


@pytest.mark.slow
def test_a_cell_without_numbers_shows_no_ratio(cases, make):
    cell, site = make(Record(cases[0].id, "error", "run", "launch", "x"))
    assert cell.noise == {}
    assert "not measured" in (site / "summary.md").read_text()
    assert Page(site).overview["cells"]["noise_by_dtype"] == {}
