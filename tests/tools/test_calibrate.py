"""Calibration measures the noise of many seeds and proposes limits; it never writes matrix.yaml."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from common import END, ROOT, Doubles, harness
from ruamel.yaml import YAML

from kernel_matrix import pipeline
from kernel_matrix.config.model import Accuracy
from kernel_matrix.config.plan import plan
from kernel_matrix.job.budget import Pair, limits
from kernel_matrix.results.states import Verdict
from kernel_matrix.store.record import Record
from kernel_matrix.tools.calibrate.calibrate import Calibration, seeded
from kernel_matrix.tools.calibrate.calibration import by_output, proposals, rounded_up, spread
from kernel_matrix.tools.calibrate.calibration_text import as_json, markdown, present_limits, proposed, yaml
from kernel_matrix.tools.calibrate.noise import TARGET, Noise, noise_of
from kernel_matrix.vendors.machine import Machine, detect
from kernel_matrix.vendors.vendor import Device


@pytest.fixture
def with_seeds(here: Doubles, monkeypatch) -> Doubles:
    """Return the doubles with the axis seed, on a target that this machine has."""
    monkeypatch.setattr("signal.signal", lambda *_: None)
    here.edit("axes: [tokens]", "axes: [tokens, seed]\n    defaults: { seed: 0 }")
    return here


def calibrated(doubles: Doubles, *words: str):
    return harness("calibrate", "--matrix", str(doubles.root / "matrix.yaml"), "--executor", "current", *words)


@pytest.mark.slow
def test_every_seed_is_run_and_the_spread_is_printed_and_written(with_seeds: Doubles):
    before = (with_seeds.root / "matrix.yaml").read_text()
    done = calibrated(with_seeds, "--toolchain", "good", "--seeds", "4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 seeds of the quick cases: 12 pass. False alarms: 0." in done.stdout
    assert "| `double.forward` | `out` | - | 12 | 0.00, 0.00, **0.00** |" in done.stdout
    entries = YAML(typ="safe").load(done.stdout[done.stdout.index("# Proposed:") : done.stdout.index("written:")])
    assert entries["accuracy"]["factor"]["limit"] == 1, "the kernel is exact"
    folder = with_seeds.root / "build" / "calibrate"
    written = json.loads((folder / "calibration.json").read_text())
    assert (written["seeds"], written["outcomes"], written["false_alarms"]) == (4, {"pass": 12}, [])
    assert written["outputs"][0]["cases"] == 12
    assert "| `double.forward` |" in (folder / "calibration.md").read_text()
    assert (with_seeds.root / "matrix.yaml").read_text() == before
    assert not (with_seeds.root / "build" / "results").exists(), "the results of the plan stay as they are"


@pytest.mark.slow
def test_a_case_that_fails_is_a_false_alarm_and_red(with_seeds: Doubles):
    done = calibrated(with_seeds, "--toolchain", "wrong", "--seeds", "2")
    assert done.returncode == 1
    assert "2 fail, 4 pass. False alarms: 2." in done.stdout
    assert "fail: here/" in done.stdout
    assert "tokens2-seed1: " in done.stdout


@pytest.mark.slow
def test_a_case_that_is_known_to_fail_is_no_false_alarm(with_seeds: Doubles):
    path = with_seeds.root / "matrix.yaml"
    where = "where: { tokens: 2, toolchain: wrong }, outcome: fail, match: max_abs, reason: it is wrong on purpose"
    path.write_text(f"{path.read_text()}expectations: [{{ {where}, {END} }}]\n")
    done = calibrated(with_seeds, "--toolchain", "wrong", "--seeds", "1")
    assert done.returncode == 0
    assert "1 known, 2 pass. False alarms: 0." in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--toolchain", "segfault", "--op", "triple"], "--op triple: there is no such operator with the axis 'seed'."),
        (["--toolchain", "goood"], "--toolchain goood: there is no such toolchain. Did you mean 'good'?"),
    ],
)
def test_bad_input_is_said_in_one_line(with_seeds: Doubles, words, message):
    done = calibrated(with_seeds, *words)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.slow
def test_without_a_number_there_is_no_noise(with_seeds: Doubles):
    with_seeds.edit("tokens: [1, 2, 3]", "tokens: 2")
    done = calibrated(with_seeds, "--toolchain", "raises", "--seeds", "1")
    assert done.returncode == 2
    assert "no case came to a number, so there is no noise to measure. The first: here/" in done.stderr


def test_without_a_seed_nothing_can_be_calibrated(here: Doubles, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    done = calibrated(here)
    assert done.returncode == 2
    assert "no operator of matrix.yaml has the axis 'seed'" in done.stderr


@pytest.mark.slow
def test_a_platform_that_cannot_run_here_is_named_with_the_reason(matrix, tmp_path, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    if detect().of("nvidia"):
        pytest.skip("this machine has an NVIDIA GPU")
    done = harness("calibrate", "--platform", "cuda", "--build", str(tmp_path))
    assert done.returncode == 2
    assert "--platform cuda: nothing of it can run here." in done.stderr
    assert "this machine has no NVIDIA CUDA device for sm_80" in done.stderr


def test_only_what_runs_here_is_planned_with_all_seeds(matrix, tmp_path):
    project = pipeline.load(ROOT / "matrix.yaml", tmp_path)
    laptop = Machine((Device("cpu", "test", ("x86-64-v3",)),))
    work = seeded(project, laptop, 3, pipeline.Selection(), ["sinkhorn.forward"], build=tmp_path)
    cases = [case for job in work.jobs for case in job.cases]
    assert {case.cell.op for case in cases} == {"sinkhorn"}
    assert {case.cell.direction for case in cases} == {"forward"}
    assert {case.axes["seed"] for case in cases} == {0, 1, 2}
    assert "cpu-llvm" in {case.cell.platform for case in cases}
    quick = [case for case in pipeline.plan(project, "quick").cases if case.cell.platform == "cpu-llvm"
             and (case.cell.op, case.cell.direction) == ("sinkhorn", "forward") and not case.exclusion]  # fmt: skip
    assert len([case for case in cases if case.cell.platform == "cpu-llvm"]) == 3 * len(quick)
    assert any(text.startswith("cuda.triton-3.7: ") for text in work.left_out)
    assert work.project.matrix.limits.job == 3 * matrix.limits.job


ACCURACY = Accuracy.model_validate({
    "factor": {"limit": 4, "source": "chosen for the tests of the harness"},
    "rounded": {"limit": 1.5, "source": "chosen for the tests of the harness"},
    "ulps": {"limit": 4, "source": "chosen for the tests of the harness"},
    "caps": {"forward": {"limit": 0.01, "source": "chosen for the tests of the harness"}},
})  # fmt: skip


def verdict(case, figures, output="out", state="pass", **limit: float) -> Verdict:
    """Return a verdict whose record has the figures of one output, and the limits that the formula gives."""
    allowed = limits(
        Pair(figures["floor_max_abs"], figures["floor_rel_fro"]),
        Pair(figures["conditioning_max_abs"], figures["conditioning_rel_fro"]),
        largest=figures["largest"], itemsize=figures["itemsize"], steps=figures["steps"],
        **{"factor": 4, "rounded": 1.5, "ulps": 4, "cap": 0.01 * figures["unit"], **limit},
    )  # fmt: skip
    figures = {**figures, "limit_max_abs": allowed.max_abs, "limit_rel_fro": allowed.rel_fro}
    metrics = {f"{output}.{name}": value for name, value in figures.items()}
    return Verdict(case, state, "ran", "", Record(case.id, "pass", "run", metrics=metrics))


FIGURES = {
    "max_abs": 3e-6, "rel_fro": 2e-6, "floor_max_abs": 1e-6, "floor_rel_fro": 1e-6, "conditioning_max_abs": 5e-7,
    "conditioning_rel_fro": 5e-7, "largest": 0.5, "itemsize": 4, "steps": 4, "unit": 1.0,
}  # fmt: skip
BF16 = {**FIGURES, "itemsize": 2, "max_abs": 4e-3, "rel_fro": 2e-3, "floor_max_abs": 4e-3, "floor_rel_fro": 1.8e-3}


@pytest.fixture
def cases(matrix):
    """Return a function that gives the cases of mhc_pre forward in a dtype, by their seeds."""
    project_cases = [case for case in plan(matrix, "quick").cases if case.cell.op == "mhc_pre"]

    def of(dtype: str, seeds: int):
        case = next(case for case in project_cases if case.axes["dtype"] == dtype and case.cell.direction == "forward")
        return [replace(case, name=f"{case.name}-{seed}", axes={**case.axes, "seed": seed}) for seed in range(seeds)]

    return of


def test_the_proposed_limits_leave_two_thirds_by_the_formula_itself(cases):
    """The budget is made again with the proposed limits."""
    fp32 = [verdict(case, {**FIGURES, "max_abs": (1 + seed) * 1e-6}) for seed, case in enumerate(cases("fp32", 5))]
    bf16 = [
        verdict(case, {**BF16, "rel_fro": (1 + seed) * 5e-4}, "h_in@bf16x3")
        for seed, case in enumerate(cases("bf16", 5))
    ]
    noises = noise_of([*fp32, *bf16], ACCURACY)
    found = {one.place: one for one in proposals(noises, present_limits(ACCURACY))}
    assert found["factor"].spread.largest == pytest.approx(5 * 1.5)
    assert found["factor"].limit == 7.5
    assert found["rounded"].spread.largest == pytest.approx(5 * 5e-4 * 1.5 / 1.8e-3)
    assert found["rounded"].limit == 2.1
    assert found["caps.forward"].limit == 6e-3
    assert (found["factor"].spread.median, found["factor"].spread.p95) == (pytest.approx(4.5), pytest.approx(7.5))
    new = {"factor": found["factor"].limit, "rounded": found["rounded"].limit, "cap": found["caps.forward"].limit}
    again = [verdict(one.case, {**FIGURES, "max_abs": (1 + seed) * 1e-6}, **new) for seed, one in enumerate(fp32)]
    shares = [noise.share for noise in noise_of(again, ACCURACY)]
    assert max(shares) == pytest.approx(TARGET)


def test_the_growth_of_sums_and_that_of_other_outputs_are_proposed_apart(matrix):
    """An output that the operator names under ``sums`` makes no demand on the limit of the others."""
    case = next(case for case in plan(matrix, "quick").cases
                if (case.cell.op, case.cell.direction) == ("mhc_pre", "backward"))  # fmt: skip
    figures = [("phi", 0.22), ("phi@tensor_cores", 0.24), ("x", 0.02)]
    verdicts = [verdict(case, {**FIGURES, "growth": growth}, output) for output, growth in figures]
    accuracy = matrix.accuracy
    calibration = Calibration(tuple(noise_of(verdicts, accuracy)), {"pass": 3}, (), (6, 6), {
        "commit": ("abc",), "device": ("a CPU",), "executor": ("venv",), "started": ("2026-11-22T10:00:00Z",),
    })  # fmt: skip
    found = {one.place: (one.present, one.limit) for one in proposed(calibration, accuracy)}
    assert (found["growth.sums"], found["growth.others"]) == ((0.375, 0.36), (0.125, 0.03))
    entries = YAML(typ="safe").load(yaml(proposed(calibration, accuracy), calibration, 3, "x"))["accuracy"]
    assert (entries["growth"]["sums"]["limit"], entries["growth"]["others"]["limit"]) == (0.36, 0.03)
    assert entries["caps"]["backward"]["limit"] > 0
    again = {**accuracy.model_dump(), **entries, "caps": {**accuracy.model_dump()["caps"], **entries["caps"]}}
    assert Accuracy.model_validate(again).limits()["growth"] == {"sums": 0.36, "others": 0.03}


def test_where_the_conditioning_makes_the_budget_no_factor_is_needed(cases):
    [case] = cases("fp32", 1)
    figures = {**FIGURES, "steps": 100}
    [noise] = noise_of([verdict(case, figures)], ACCURACY)
    assert noise.demands["factor"] == 0
    assert noise.demands["caps.forward"] == pytest.approx(4.5e-6)


def test_a_result_without_the_figures_of_a_budget_has_a_share_and_makes_no_demand(cases):
    [case] = cases("fp32", 1)
    short = verdict(case, FIGURES)
    metrics = {name: value for name, value in short.record.metrics.items() if not name.endswith("largest")}
    noises = noise_of([replace(short, record=replace(short.record, metrics=metrics))], ACCURACY)
    assert [(noise.share, noise.ratio, noise.demands) for noise in noises] == [(pytest.approx(0.75), 2.0, {})]
    assert proposals(noises, present_limits(ACCURACY)) == []


def test_the_ratio_is_made_from_the_errors_and_never_taken_from_a_record(cases):
    [case] = cases("fp32", 1)
    [honest], [lying] = (
        noise_of([verdict(case, {**FIGURES, **more})], ACCURACY) for more in ({}, {"noise_ratio": 0.1})
    )
    assert lying.ratio == honest.ratio == 2.0
    [broken] = noise_of([verdict(case, {**FIGURES, "nan": 1.0})], ACCURACY)
    assert broken.ratio == math.inf


def test_known_failures_and_cases_without_a_result_are_no_noise(cases):
    [case] = cases("fp32", 1)
    known = verdict(case, FIGURES, state="known")
    assert noise_of([known, replace(known, state="missing", record=None)], ACCURACY) == []


def one(seed, share, output="out", dtype="fp32", ratio=1.0) -> Noise:
    return Noise(f"case-{seed}-{share}", "a/b/c", "op.forward", output, dtype, seed, share, ratio, {})


def test_of_each_seed_the_largest_value_counts():
    values = spread([one(seed, share) for seed in range(20) for share in (0.01, seed / 100)], lambda noise: noise.share)
    assert (values.median, values.p95, values.largest, values.case) == (0.09, 0.18, 0.19, "case-19-0.19")
    assert spread([one(0, 1.0, ratio=None)], lambda noise: noise.ratio) is None


def test_outputs_and_dtypes_are_apart_and_what_is_over_is_counted():
    rows = by_output([one(0, 0.5), one(1, 1.5), one(0, 0.1, dtype="bf16"), one(0, float("nan"), output="y")])
    assert [(row.output, row.dtype, row.cases, row.over) for row in rows] == [
        ("out", "fp32", 2, 1), ("out", "bf16", 1, 0), ("y", "fp32", 1, 1),
    ]  # fmt: skip
    assert rows[2].share.largest == float("inf")


def test_the_texts_say_the_spread_and_can_be_put_into_matrix_yaml(cases):
    verdicts = [verdict(case, {**FIGURES, "max_abs": float("inf") if seed == 9 else 3e-6})
                for seed, case in enumerate(cases("fp32", 3))]  # fmt: skip
    facts = {"commit": ("abc",), "device": ("a CPU",), "executor": ("venv",), "started": ("2026-11-22T10:00:00Z",)}
    calibration = Calibration(tuple(noise_of(verdicts, ACCURACY)), {"pass": 3}, (), (6, 6), facts)
    text = yaml(proposed(calibration, ACCURACY), calibration, 3, "kernel-matrix calibrate --seeds 3")
    entries = YAML(typ="safe").load(text)["accuracy"]
    assert entries["factor"]["limit"] == 4.5
    assert "Of 3 seeds the median needs 4.5, the 95th percentile 4.5, the largest 4.5" in entries["factor"]["source"]
    assert "2026-11-22, at abc." in entries["caps"]["forward"]["source"]
    assert Accuracy.model_validate({**ACCURACY.model_dump(), **entries}).factor.limit == 4.5
    assert "Canaries: 6 of 6 caught." in markdown(calibration, 3, "x")
    broken = replace(calibration, noises=(replace(calibration.noises[0], share=float("inf")),))
    assert json.loads(as_json(broken, ACCURACY, 3, "x"))["outputs"][0]["share"]["largest"] is None
    assert yaml([], calibration, 3, "x").startswith("# No entry is proposed")


@pytest.mark.parametrize(("value", "rounded"), [(4.5, 4.5), (4.51, 4.6), (0.00123, 0.0013), (99.9, 100.0), (7, 7.0)])
def test_a_limit_is_rounded_up_to_two_digits(value, rounded):
    assert rounded_up(value) == rounded
