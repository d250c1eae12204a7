"""An accuracy is shown as noise ratio: the error of the kernel over that of the baseline, in the same dtype."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest
from conftest import few_cases
from hypothesis import given
from hypothesis import strategies as st
from test_compare import TRITON
from test_report import write_site

from kernel_matrix.config.plan import plan
from kernel_matrix.report import heatmap, terminal
from kernel_matrix.report.document import Noise
from kernel_matrix.report.words import noise_ratio
from kernel_matrix.results import noise as noises
from kernel_matrix.results import repeat
from kernel_matrix.results.collect import Collected
from kernel_matrix.results.compare import compare
from kernel_matrix.results.record import Record

EMULATED = "cpu-llvm/x86-64-v3/triton-3.6/mhc_pre.forward"


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
    return few_cases(plan(matrix, "quick"))


@pytest.fixture
def cases(planned):
    return [case for case in planned.cases if case.cell.id == TRITON]


@pytest.fixture
def make(matrix, planned, tmp_path):
    """Write the site of some records and return (the document's cell, the site's folder)."""

    def write(*records):
        collected = Collected((), records, ())
        whole = write_site(matrix, compare(planned, records), collected, tmp_path / "site")
        return next(cell for cell in whole.cells if cell.id == TRITON), tmp_path / "site"

    return write


def test_the_ratio_is_made_from_the_two_errors_and_not_taken_from_the_record():
    forged = record(error=3e-7, floor=1e-7)
    forged = replace(forged, metrics={**forged.metrics, "out.noise_ratio": 0.1})
    assert noises.ratios(forged) == {"out": pytest.approx(3.0)}


def test_an_output_whose_baseline_is_exact_has_no_ratio():
    assert noises.ratios(record(floor=0.0)) == {}
    assert noises.pooled([record(floor=0.0)])["out"].ratio is None


def test_a_case_of_few_elements_does_not_decide():
    many = [record(error=1e-7, elements=1e6), record(error=1.28e-6, elements=1.0)]
    assert noises.pooled(many)["out"].ratio == pytest.approx(1.08, abs=0.01)


def test_a_large_case_does_not_hide_a_small_one():
    both = [record(error=1e-7, elements=4e6), record(error=1e-6, elements=1400.0)]
    assert noises.pooled(both)["out"].ratio == pytest.approx(math.sqrt(101 / 2))


def test_a_case_that_is_computed_less_exactly_on_purpose_does_not_hide_the_others():
    """The baseline's own error is 1e-3 where both use tf32. An error of 1e-3 elsewhere must show."""
    tf32, fp32 = record(error=1e-3, floor=1e-3), record(error=1e-3, floor=1e-7)
    assert noises.pooled([tf32, fp32])["out"].ratio > 1000


@given(st.lists(st.floats(), min_size=4, max_size=4))
def test_no_figure_of_a_record_stops_the_report(values):
    names = ("error", "floor", "elements", "misrounded")
    noise = noises.pooled([record(itemsize=2.0, floor_misrounded=0.1, **dict(zip(names, values, strict=True)))])["out"]
    assert noise.ratio is None or noise.ratio >= 0
    assert noise.misrounded is None or noise.misrounded >= 0


def test_a_result_with_nan_is_never_as_exact_as_the_baseline():
    assert noises.ratios(record(error=0.0, nan=1.0)) == {"out": math.inf}


def test_misrounded_is_shown_of_outputs_that_are_narrower_than_fp32():
    shares = {"misrounded": 0.3, "floor_misrounded": 0.2}
    narrow, wide = (noises.pooled([record(itemsize=size, **shares)])["out"] for size in (2.0, 4.0))
    assert (narrow.misrounded, narrow.floor_misrounded) == (pytest.approx(0.3), pytest.approx(0.2))
    assert (wide.misrounded, wide.floor_misrounded) == (None, None)
    assert noises.in_words(record(itemsize=2.0, **shares)) == "out 2 (misrounded 30.00%, baseline 20.00%)"


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
    page = (site / "index.html").read_text()
    assert "<span>2.50 ×</span>" in page
    assert '"noise_ratio":2.5' in page
    lines = list(terminal.summary(matrix, compare(planned, [result]), ()))
    assert (
        f"noise ratio (the error over that of {matrix.package.baseline}), bf16: at most 2.5 (h_in in {TRITON})" in lines
    )
    assert "  noise ratio: h_in 2.5 (misrounded 12.50%, baseline 6.25%), r 2" in lines
    assert any(line.startswith("noise ratio: h_in 2.5") for line in repeat.facts(matrix, TRITON, result))


def test_the_heat_map_has_a_switch_that_needs_no_script(cases, make):
    by_dtype = {case.axes["dtype"]: case for case in cases}
    _, site = make(
        *(record(case.id, error=error) for case, error in zip(by_dtype.values(), (4e-8, 1e-7, 9e-7), strict=False))
    )
    page = (site / "index.html").read_text()
    before_script = page.partition("<script>")[0]
    switches = re.findall(
        r'<input type="radio" name="noise-dtype" id="noise-(\d)"( checked)?><label for="noise-\1">(\w+)', page
    )
    assert {dtype for _, _, dtype in switches} == set(by_dtype)
    assert [bool(checked) for _, checked, _ in switches] == [True] + [False] * (len(by_dtype) - 1)
    for number, _, _ in switches:
        assert f'id="map-{number}"' in before_script
        assert f"#noise-{number}:checked ~ #map-{number}" in page


def test_a_square_of_the_heat_map_says_number_output_evidence_and_what_is_not_known(planned, passing, make):
    case = next(case for case in planned.cases if case.cell.id == EMULATED and case.axes["dtype"] == "fp32")
    _, site = make(passing(case, h_res={"rel_fro": 1.7e-7, "floor_rel_fro": 1e-7}))
    page = (site / "index.html").read_text()
    [square] = re.findall(r'<button class="h ([^"]+)" data-cell="' + re.escape(EMULATED), page)
    assert square == "h-4 h-emulated"
    assert "<b>1.70</b><small>h_res</small>" in page
    assert "State missing, evidence emulated." in page, "not all of its cases are here"
    assert page.count('<div class="h h-none"') == 9, "the other operators of this lane are grey"
    assert "lanes have no noise ratio, because nothing ran there" in page
    assert '<li><span class="swatch h-4"></span>1.5 to 2</li>' in page, "the scale is stated"


@pytest.mark.parametrize(
    ("ratio", "text", "step"),
    [(0, "0.00", 0), (0.5, "0.50", 0), (1, "1.00", 2), (1.1, "1.10", 2), (1.11, "1.11", 3), (12.83, "12.8", 6),
     (345.6, "346", 6), (1e30, "1e30", 6), (123456.0, "1e5", 6),
     ("inf", "∞", 6), ("nan", "∞", 6), (None, "exact", None)],
)  # fmt: skip
def test_the_colour_of_a_square_follows_its_ratio(ratio, text, step):
    square = heatmap.Square(
        None, "out", Noise(ratio=ratio, misrounded=None, floor_misrounded=None, elements=1, cases=1, evidence="ran")
    )
    assert (square.text, square.step) == (text, step)


def test_the_scale_has_a_colour_for_each_step_whose_text_can_be_read():
    def luminance(colour):
        channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    steps = heatmap.scale()
    assert len({step.colour for step in steps}) == len(steps) == len(heatmap.STEPS) + 1
    for step in steps:
        text = luminance("#ffffff" if step.white else "#1f2328")
        light, dark = sorted((luminance(step.colour), text), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, step


def test_a_cell_without_numbers_shows_no_ratio(cases, make):
    cell, site = make(Record(cases[0].id, "error", "run", "launch", "x"))
    assert noise_ratio(cell) == "no ratio"
    assert cell.noise == {}
    assert "not measured" in (site / "summary.md").read_text()
    assert 'id="noise"' not in (site / "index.html").read_text()
