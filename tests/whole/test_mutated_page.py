"""The page of toolchains with known faults: each fault is where a reader looks for it, and nothing else is."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import mutated
import pytest
from common import RUN, environments_of, records_in, sh
from loops import at_least
from shown import Page

from kernel_matrix.store.record import Record
from kernel_matrix.vendors.machine import detect

LANE = "cpu-llvm/x86-64-v3"
MAPPINGS = {"mhc_pre.forward", "mhc_pre.backward"}
EVERYTHING = MAPPINGS | {"sinkhorn.forward", "sinkhorn.backward"}
OTHER_BITS = re.compile(r"run \d on the same inputs gives other results: ")


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the matrix of toolchains with faults, make its report, and return its folder."""
    if "x86-64-v3" not in detect().devices[0].targets:
        pytest.fail("these tests need a CPU of the level x86-64-v3, as matrix.yaml's cpu-llvm does")
    folder = tmp_path_factory.mktemp("mutated")
    mutated.make(folder)
    environments_of(folder / "build")
    configuration = ("--matrix", str(folder / "matrix.yaml"))
    run = sh(*RUN, *configuration, "--executor", "venv")
    report = sh(sys.executable, "-m", "kernel_matrix", "report", *configuration)
    assert (run.returncode, report.returncode) == (1, 1), run.stdout + run.stderr + report.stdout + report.stderr
    assert "audit" not in report.stderr, "the report is red because of its cells alone"
    return folder


@pytest.fixture(scope="module")
def compat(faulty: Path) -> dict[str, Any]:
    return json.loads((faulty / "build" / "site" / "compat.json").read_text())


@pytest.fixture(scope="module")
def page(faulty: Path) -> Page:
    return Page(faulty / "build" / "site")


def records(folder: Path, toolchain: str) -> dict[str, Record]:
    """Return the results of a toolchain by the names of their cases."""
    of_toolchain = records_in(folder / "build" / "results", f"cpu-llvm.{toolchain}")
    return {record.case.split("/", 3)[3]: record for record in of_toolchain}


def cells(compat: dict[str, Any], condition: Any) -> set[tuple[str, str]]:
    """Return the toolchain and the operator of each cell for which the condition holds."""
    return {(cell["toolchain"], f"{cell['op']}.{cell['direction']}") for cell in compat["cells"] if condition(cell)}


def test_a_cell_is_red_where_its_toolchain_has_a_fault_and_nowhere_else(compat):
    forward, backward = ("no-gamma", "mhc_pre.forward"), ("extra-inv-rms2", "mhc_pre.backward")
    shuffled = {("random-order", op) for op in MAPPINGS}
    assert cells(compat, lambda cell: cell["state"] == "fail") == {forward, backward} | shuffled
    assert cells(compat, lambda cell: cell["state"] == "error") == {("blind", op) for op in EVERYTHING}
    green = cells(compat, lambda cell: (cell["state"], cell["evidence"]) == ("pass", "ran"))
    assert len(green) == len(compat["cells"]) - 8 == 16


@pytest.mark.parametrize(
    ("toolchain", "op", "outputs"),
    [
        ("no-gamma", "mhc_pre.forward", ["m", "h_res", "h_post", "h_in"]),
        ("extra-inv-rms2", "mhc_pre.backward", ["x"]),
    ],
)
def test_accuracy_names_the_wrong_outputs_and_how_far_they_are_over_their_budget(compat, toolchain, op, outputs):
    over = cells(compat, lambda cell: cell["accuracy"]["share"] > 1)
    assert over == {("no-gamma", "mhc_pre.forward"), ("extra-inv-rms2", "mhc_pre.backward")}
    [cell] = [cell for cell in compat["cells"] if cell["id"] == f"{LANE}/{toolchain}/{op}"]
    assert cell["accuracy"]["output"] == outputs[0]
    assert cell["accuracy"]["error"] > 1e5 * cell["accuracy"]["limit"]
    assert re.findall(r"(\w+): max_abs \S+ is over", cell["reason"]) == sorted(outputs)


def test_an_extra_inv_rms2_is_inside_the_budget_in_bf16_at_unit_scale_and_too_much_is_misrounded(faulty):
    """At a tenth of the scale the error itself is over its limit."""
    mine = records(faulty, "extra-inv-rms2")
    name = "mhc_pre.backward/tokens7-streams4-hidden200-bf16-gamma-fp32-scale{}-seed0"
    unit, tenth = (mine[name.format(scale)] for scale in ("1", "0.1"))
    assert (unit.outcome, tenth.outcome) == ("fail", "fail")
    assert unit.metrics["x.noise_ratio"] < 1.5
    assert re.search(r"OutOfBudgetError: x: [\d.]+% of the elements are misrounded", unit.message)
    assert tenth.metrics["x.noise_ratio"] > 1000
    assert tenth.metrics["x.rel_fro"] > 1, "the error is larger than the gradient"


def test_the_noise_ratio_is_high_where_numbers_are_wrong_and_low_elsewhere(compat, page):
    ratios = {
        (cell["toolchain"], f"{cell['op']}.{cell['direction']}", dtype): max(
            (output["ratio"], name) for name, output in outputs.items()
        )
        for cell in compat["cells"]
        for dtype, outputs in cell["noise"].items()
    }
    wrong = {key: name for key, (ratio, name) in ratios.items() if ratio > 10}
    assert wrong == {
        **{("no-gamma", "mhc_pre.forward", dtype): "m" for dtype in ("fp32", "bf16")},
        **{("extra-inv-rms2", "mhc_pre.backward", dtype): "x" for dtype in ("fp32", "bf16")},
    }
    assert min(ratio for ratio, _ in (ratios[key] for key in wrong)) > 100
    high = {(cell, dtype) for cell, row in page.rows.items() for dtype, ratio in row["noise_by_dtype"].items()
            if ratio is not None and float(ratio) > 4}  # fmt: skip
    assert high == {(f"{LANE}/{toolchain}/{op}", dtype) for toolchain, op, dtype in wrong}


def test_who_computes_something_else_is_the_odd_one_out(compat, page):
    odd = {
        (member["toolchain"], f"{table['op']}.{table['direction']}", table["dtype"]): member["odd"]["outputs"]
        for table in compat["agreement"]["tables"]
        for member in table["members"]
        if member["odd"]
    }
    assert odd == {
        **{("no-gamma", "mhc_pre.forward", dtype): ["h_in", "h_post", "h_res", "m"] for dtype in ("fp32", "bf16")},
        **{("extra-inv-rms2", "mhc_pre.backward", dtype): ["x"] for dtype in ("fp32", "bf16")},
    }
    marked = {name for name, row in page.rows.items() if row["odd"]}
    assert marked == {f"{LANE}/{toolchain}/{op}" for toolchain, op, _ in odd}


def test_only_a_kernel_that_is_not_deterministic_has_other_bits_in_a_second_run(compat, page, faulty):
    differing = {name for name, row in page.rows.items() if row["differing"]}
    assert differing == {f"{LANE}/random-order/{op}" for op in MAPPINGS}
    counts = {lane["toolchain"]: lane["determinism"] for lane in compat["lanes"]}
    assert {name for name, count in counts.items() if count["differing"]} == {"random-order"}
    assert all(count["repeats"] for count in counts.values())
    for cell in (cell for cell in compat["cells"] if cell["id"] in differing):
        assert cell["diagnosis"]["rule"] == "kit-other-bits"
    assert cells(compat, lambda cell: OTHER_BITS.search(cell["reason"])) == {("random-order", op) for op in MAPPINGS}
    for name, record in records(faulty, "random-order").items():
        expected = ("fail", True) if name.startswith("mhc_pre") else ("pass", False)
        assert (record.outcome, bool(OTHER_BITS.search(record.message))) == expected, name


def test_same_equations_in_another_order_each_time_are_the_bits_of_nobody(compat):
    for table in at_least(2, compat["agreement"]["tables"]):
        names = [member["toolchain"] for member in table["members"]]
        groups = [{names[place] for place in group} for group in table["groups"]]
        assert ({"random-order"} in groups) == (table["op"] == "mhc_pre")


def test_canaries_point_at_the_job_whose_comparison_is_blind(compat, faulty):
    counts = {lane["toolchain"]: lane["canaries"] for lane in compat["lanes"]}
    assert counts.pop("blind")["caught"] == 0
    assert counts.keys() == {*mutated.RIGHT, *mutated.FAULTS}
    assert all(count["caught"] == count["injected"] > 0 for count in counts.values())
    outcomes = {record.outcome for record in records(faulty, "blind").values()}
    assert outcomes == {"pass", "error"}, "its cases without canaries say that they passed, and are not believed"
    for cell in (cell for cell in compat["cells"] if cell["toolchain"] == "blind"):
        assert cell["canaries"]["caught"] == 0
        assert cell["cases"] == {"error": cell["planned"]}


def test_an_edit_that_no_longer_fits_is_an_error(tmp_path):
    (tmp_path / "module.py").write_text("x = 1\nx = 1\n")
    with pytest.raises(ValueError, match="has 'x = 1' 2 times, and not once"):
        mutated.Edit("module.py", "x = 1", "x = 2").make(tmp_path)
