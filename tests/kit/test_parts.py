"""Operators whose kernels a function of the suite makes: directions, variants, what is optional, and own properties."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import driving
import pytest

from kernel_matrix.kit.running import Running

SUITE = Path(__file__).with_name("suites") / "parts"
AXES = {"tokens": 7, "hidden": 24, "gain": True}
GROWTH = {**driving.ACCURACY, "growth": {"sums": 0.375, "others": 0.125}}
FAULTS = [
    ("usual_eps", "forward", {"hidden": 25}, ""),
    ("gain_is_there", "forward", {"gain": False}, ""),
    ("calls_plain_code", "forward", {}, "a kernel may not import plain: it is what its results are compared with"),
    ("clamps", "forward", {}, "y follows the scale of x"),
    ("forgets_r", "forward", {}, "r: 7 NaN and 0 Inf in 7 elements"),
    ("@usual_eps", "forward", {"hidden": 25}, "y@usual_eps: "),
    ("wrong_alone", "backward", {}, "[kit-gradients]"),
    ("one_element_alone", "backward", {}, "[kit-gradients]"),
    ("unwritten_alone", "backward", {}, "[kit-gradients]"),
    ("gain_forgotten_alone", "backward", {}, "[kit-gradients]"),
    ("needs_every_output", "backward", {}, "'NoneType' object has no attribute 'fill'"),
    ("@wrong_alone", "backward", {}, "[kit-gradients]"),
    ("reads_r_of_the_next", "backward", {}, ""),
    ("one_chain", "backward", {"tokens": 16384, "hidden": 16}, "[kit-growth]"),
]


def run_all(folder: Path, cases: list[tuple[str, str, dict[str, object]]], **of_case: object) -> driving.Job:
    cases = [("norm", direction, {**AXES, **axes, "kernel": kernel}) for kernel, direction, axes in cases]
    return driving.run(folder, SUITE, "", cases, driving.ROOT / "src", accuracy=GROWTH, sums=["gain"], **of_case)


def run(folder: Path, kernel: str, direction: str, axes: dict[str, object], **of_case: object) -> driving.Job:
    return run_all(folder, [(kernel, direction, axes)], **of_case)


def test_each_fault_of_a_kernel_that_the_suite_makes_is_red_and_the_right_one_green(tmp_path):
    faults = [(kernel, direction, axes) for kernel, direction, axes, _ in FAULTS]
    right = {str(case): ("good", *case) for _, *case in faults}
    job = run_all(tmp_path, [*right.values(), *faults])
    assert len(job.ends) == len(right) + len(FAULTS), job.output
    red = {case.rpartition("kernel=")[2]: message for case, message in job.red().items()}
    assert red.keys() == {kernel for kernel, *_ in FAULTS}
    assert [kernel for kernel, *_, words in FAULTS if words not in red[kernel]] == [], red


def test_other_bits_inside_the_budget_are_no_fault_where_fewer_outputs_are_asked_for(tmp_path):
    job = run(tmp_path, "other_order_alone", "backward", {})
    assert (len(job.ends), job.red()) == (1, {}), job.output


def test_a_figure_of_each_variant_and_of_the_growth_is_recorded(tmp_path):
    [end] = run(tmp_path, "@_backward", "backward", {"tokens": 4096, "hidden": 16}).ends.values()
    assert {"gain.growth", "gain@_backward.growth", "x@_backward.rel_fro"} <= end["metrics"].keys()
    assert end["facts"]["checks"] == "16 of 16 checks", "two of them are made once, in cases of 7 rows"


def test_a_timed_case_is_raced_against_its_baseline_which_the_kernel_cannot_import_later(tmp_path):
    [end] = run(tmp_path, "good", "backward", {}, timed=True).ends.values()
    assert end["metrics"]["time.ratio"] > 0
    assert end["metrics"]["repeats"] == 15
    job = run(tmp_path / "2", "calls_plain_code", "forward", {}, timed=True)
    assert "a kernel may not import plain" in "".join(job.red().values())


def test_checks_may_be_left_out_in_some_cases_and_a_reason_is_owed(tmp_path):
    [end] = run(tmp_path, "good", "backward", {"gain": False}).ends.values()
    assert "not asked: magnitudes (the cases with a gain have it)" in end["facts"]["checks"]


def test_a_kernel_that_works_in_place_gives_the_same_bits_where_it_is_timed(tmp_path):
    case = ("numpy_momentum", "forward", {"tokens": 7, "hidden": 40, "dtype": "fp32", "kernel": "momentum", "seed": 0})
    source, suite = driving.ROOT / "tests" / "kit" / "honest", SUITE.with_name("honest")
    job = driving.run(tmp_path, suite, "numpy_kernels:{kernel}", [case], source, timed=True)
    [end] = job.ends.values()
    assert job.red() == {}, job.output
    assert end["metrics"]["repeats"] == 15


def test_a_backward_of_inputs_that_the_case_has_not_is_refused_with_its_remedy():
    absent = SimpleNamespace(is_there=lambda sizes: False)
    op = SimpleNamespace(name="scale", framework="numpy", without={}, differentiable=("bias",), inputs={"bias": absent})
    case = SimpleNamespace(axes={"tokens": 3, "bias": False}, direction="backward")
    with pytest.raises(ValueError, match="no input of this case of scale has a gradient, so it has no backward"):
        Running(case, op)
