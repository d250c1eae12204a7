"""An operator or an output has a budget of its own, and a case has several artifacts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from common import harness, output_figures
from judges import compare
from shown import Page

from kernel_matrix.audit.states import Judge
from kernel_matrix.base.errors import UserError
from kernel_matrix.ci.loosened import loosened
from kernel_matrix.config.plan import plan
from kernel_matrix.job.case import OutOfBudgetError, RunningCase
from kernel_matrix.job.journal import Journal
from kernel_matrix.job.suite_compare import Comparer
from kernel_matrix.store.record import Record
from kernel_matrix.tools.bench.inside.contenders import Rules as BenchRules
from kernel_matrix.tools.calibrate.calibration_text import present_limits
from kernel_matrix.tools.calibrate.noise import noise_of

SOURCE = "source: chosen for the tests of the harness"
# The double `wrong` is off by 5e-4 of its result for two tokens.
LOOSE = (
    f"{{ op: double, direction: forward, output: out, factor: {{ limit: 1.0e6, {SOURCE} }}, "
    f"cap: {{ limit: 1.0, {SOURCE} }} }}"
)


def own(doubles, *entries: str):
    doubles.edit("toolchains:\n", f"  budgets: [{', '.join(entries)}]\ntoolchains:\n")
    return doubles


def verdicts(comparison) -> list:
    return [verdict for cell in comparison.cells for verdict in cell.cases]


def report(doubles) -> tuple[int, str]:
    done = harness("report", "--matrix", str(doubles.root / "matrix.yaml"))
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_a_looser_budget_of_an_output_holds_in_the_job_the_comparison_and_the_audit(doubles):
    """Without it the case of two tokens fails (tests/cli/test_cli.py)."""
    comparison = own(doubles, LOOSE).run("wrong")
    states = {verdict.case.name: verdict.state for verdict in verdicts(comparison)}
    assert states == dict.fromkeys(("tokens1", "tokens2", "tokens3"), "pass")
    status, text = report(doubles)
    assert "differ" not in text, "the audit has made the limits anew"
    assert status == 1, "other toolchains did not run, so that their cases are missing"


@pytest.mark.slow
def test_a_tighter_budget_of_an_operator_fails_what_passed(doubles):
    own(doubles, f"{{ op: double, cap: {{ limit: 1.0e-12, {SOURCE} }} }}")
    [verdict, *_] = [one for one in verdicts(doubles.run("wrong")) if one.case.name == "tokens2"]
    assert (verdict.state, "over 1e-12" in verdict.record.message) == ("fail", True)


def test_the_last_entry_that_names_a_limit_holds_and_an_output_without_an_entry_has_the_general_one(doubles):
    entries = [
        f"{{ op: double, factor: {{ limit: 2, {SOURCE} }}, rounded: {{ limit: 3, {SOURCE} }} }}",
        f"{{ op: double, output: dx, factor: {{ limit: 9, {SOURCE} }} }}",
    ]
    case = plan(own(doubles, *entries).matrix, "quick").cases[0]
    of_dx, of_out = case.owed.rules("dx@fast"), case.owed.rules("out")
    assert (of_dx.factor, of_dx.rounded, of_dx.cap) == (9, 3, 1e-2)
    assert (of_out.factor, of_out.rounded, of_out.ulps) == (2, 3, 4)


@pytest.mark.slow
def test_figures_that_the_general_limits_allow_are_no_proof_where_the_own_ones_do_not(doubles):
    case = plan(doubles.matrix, "quick").cases[0]
    figures = {f"out.{name}": value for name, value in output_figures(case, max_abs=6e-7, rel_fro=6e-7).items()}
    metrics = {"elements": 8.0, **figures, "canary.injected": 3.0, "canary.caught": 3.0}
    record = Record(case.id, "pass", case.cell.action, metrics=metrics, job={"platform": "here"})
    own(doubles, f"{{ op: double, output: out, factor: {{ limit: 2, {SOURCE} }} }}")
    matrix = doubles.matrix
    [verdict] = [v for v in verdicts(compare(plan(matrix, "quick"), [record])) if v.case.id == case.id]
    assert "matrix.yaml makes it 9.53674e-07" in verdict.reason
    judge = Judge.__new__(Judge)
    judge.matrix = {**matrix.model_dump(), "accuracy": matrix.accuracy.limits()}
    facts = {"direction": "forward"}
    of_output = {name.partition(".")[2]: value for name, value in figures.items()}
    assert judge._is_wrong("double.forward", facts, "out", of_output)
    assert not judge._is_wrong("double.forward", facts, "other", of_output)


def test_what_became_looser_names_budgets_of_single_outputs(doubles):
    before = doubles.matrix
    after = own(doubles, LOOSE).matrix
    full = plan(before, "full")
    rows = [(row.place, row.before, row.after) for row in loosened(before, full, after, full)]
    assert rows == [
        ("accuracy.double.forward.out.factor", "4", "1e+06"),
        ("accuracy.double.forward.out.cap", "0.01", "1"),
    ]
    assert list(loosened(after, full, before, full)) == [], "the general limits are tighter"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (f"{{ op: duoble, cap: {{ limit: 1, {SOURCE} }} }}", "Did you mean 'double'?"),
        (f"{{ op: double, direction: forwrad, cap: {{ limit: 1, {SOURCE} }} }}", "unknown direction 'forwrad'"),
        ("{ op: double }", "this entry has no limit"),
        ("{ op: double, cap: { limit: 1 } }", "source"),
        (f"{LOOSE}, {LOOSE}", "an earlier entry has a limit of budgets.double.forward.out too"),
    ],
)
def test_a_budget_of_what_is_not_there_or_without_a_reason_is_refused(doubles, entry, words):
    with pytest.raises(UserError, match=words.replace("?", r"\?")):
        assert own(doubles, entry).matrix


@pytest.mark.slow
def test_a_budget_of_its_own_is_calibrated_by_itself(doubles):
    matrix = own(doubles, LOOSE).matrix
    case = next(case for case in plan(matrix, "quick").cases)
    figures = {f"out.{name}": value for name, value in output_figures(case).items()}
    record = Record(case.id, "pass", case.cell.action, metrics={"elements": 8.0, **figures}, job={"platform": "here"})
    comparison = compare(plan(matrix, "quick"), [record])
    assert "budgets.double.forward.out.factor" in present_limits(matrix.accuracy)
    of_seed = [replace(v, case=replace(v.case, axes={"seed": 0})) for v in verdicts(comparison) if v.record]
    [noise] = noise_of(of_seed, matrix.accuracy)
    assert noise.demands.keys() == {"budgets.double.forward.out.factor", "budgets.double.forward.out.cap"}
    assert matrix.accuracy.place_of("cap", "double", "forward", "out") == "budgets.double.forward.out.cap"
    assert matrix.accuracy.place_of("cap", "double", "forward", "other") == "caps.forward"


def test_an_output_of_a_suites_own_test_has_a_budget_too():
    entry = {"op": "test_x", "direction": "tests", "output": "y", "factor": 1000.0}
    x = np.linspace(0, 1, 64, dtype=np.float32)
    exact = x.astype(np.float64)
    eager, actual = (exact + 1e-7).astype(np.float32), (exact + 2e-6).astype(np.float32)
    for rules, holds in (({"caps": {}}, False), ({"caps": {}, "budgets": [entry]}, True)):
        comparer = Comparer("test_x.tests/test_y", rules)
        if holds:
            comparer.compare(actual, exact, eager=eager, name="y")
        else:
            with pytest.raises(OutOfBudgetError):
                comparer.compare(actual, exact, eager=eager, name="y")


def test_the_benchmark_holds_an_output_to_its_own_budget():
    rules = BenchRules(4, 1.5, 4, 1e-2, 1e-3, [{"output": "dx", "factor": 9.0}, {"output": None, "cap": 0.5}])
    assert (rules.of("dx").factor, rules.of("dx").cap, rules.of("y").factor) == (9.0, 0.5, 4)


@pytest.fixture
def case(tmp_path) -> RunningCase:
    planned = {"id": "a/b/c/double.forward/x", "name": "x", "op": "double", "direction": "forward"}
    planned |= {"target": "sm_90", "axes": {}, "action": "compile"}
    return RunningCase(
        {"backend": "good", "device": "cpu", "accuracy": {}}, planned, Journal(tmp_path / "journal.jsonl")
    )


def test_a_case_has_several_artifacts_with_their_own_figures(case):
    case.compiled("cubin", b"12345", {"registers": 40, "threads": 128}, name="forward")
    case.compiled("cubin", b"678", {"registers": 64}, name="reduce")
    case.require_proof()
    assert case.facts["artifact.kind"] == "cubin"
    figures = {name.removeprefix("artifact."): value for name, value in case.metrics.items()}
    assert figures == {
        "forward_bytes": 5,
        "forward_registers": 40,
        "forward_threads": 128,
        "reduce_bytes": 3,
        "reduce_registers": 64,
        "bytes": 8,
        "registers": 64,
        "threads": 128,
    }


def test_a_case_of_which_one_artifact_is_source_is_lowered(case):
    case.compiled("hsaco", b"code", {}, name="a")
    case.compiled("hip-source", b"text", {}, name="b")
    assert case.facts["artifact.kind"] == "hip-source"


@pytest.mark.parametrize("name", ["a", "", "No name", "a-b"])
def test_an_artifact_without_a_name_of_its_own_is_refused(case, name):
    case.compiled("cubin", b"code", {}, name="a")
    with pytest.raises(ValueError, match="name"):
        case.compiled("cubin", b"code", {}, name=name)


COMPILING = """

def compile_ahead(_, *, target):
    from kernel_matrix.job.ahead import Artifact, sent

    parts = {"main": Artifact("text", b"out = 2 * x", {"registers": 7}), "rest": Artifact("text", b"pass", {})}
    return sent(parts)
"""


@pytest.mark.slow
def test_two_artifacts_of_a_case_stand_on_the_page(doubles):
    doubles.edit("device: cpu", "device: nvidia")
    doubles.edit("targets: [any]", "targets: [sm_90]")
    doubles.edit("good: { backend: good,", "good: { backend: good, ahead_of_time: true,")
    side, test = doubles.root / "suite" / "kernel_side.py", doubles.root / "suite" / "test_doubles.py"
    side.write_text(side.read_text() + COMPILING)
    text = test.read_text()
    assert 'case.compiled("text", b"out = 2 * x", {})' in text
    test.write_text(
        text.replace(
            'case.compiled("text", b"out = 2 * x", {})', 'case.compile("kernel_side:compile_ahead", target="sm_90")'
        )
    )
    states = {(one.state, one.evidence, one.reason[:300]) for one in verdicts(doubles.run("good"))}
    assert states == {("compiled", "compiled", "")}
    _, words = report(doubles)
    assert "differ" not in words
    cell = Page(doubles.root / "build" / "site").cells["here/sm_90/good/double.forward"]
    figures = {"bytes": 15, "registers": 7, "main_bytes": 11, "main_registers": 7, "rest_bytes": 4}
    assert cell["results"]["tokens1"]["artifact"] == figures
