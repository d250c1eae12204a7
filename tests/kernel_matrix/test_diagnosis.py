"""Every rule knows its recorded real error, and what no rule was written for is honestly not known."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from conftest import ROOT

from kernel_matrix.config.plan import Case, Job, Plan, plan
from kernel_matrix.diagnosis import NOT_KNOWN, Rule, diagnose, in_words, rules
from kernel_matrix.report.document import document
from kernel_matrix.report.site import report
from kernel_matrix.results.collect import Collected
from kernel_matrix.results.compare import compare
from kernel_matrix.results.record import Record

# Real errors that no rule was written for, met while probing and elsewhere.
HELD_OUT = [
    ("lower", "tvm.error.InternalError: Check failed: value < 1LL << (dtype.bits() - 1) (2147483648 vs. 2147483648)"),
    ("compile", "ptxas fatal   : Unresolved extern function 'cudaGetParameterBufferV2'"),
    ("compile", "error: 'tt.reduce' op requires the same element type for all operands"),
    (
        "launch",
        "RuntimeError: The size of tensor a (4) must match the size of tensor b (3) at non-singleton dimension 1",
    ),
    ("launch", "RuntimeError: expected scalar type Float but found BFloat16"),
    ("import", "SyntaxError: invalid syntax. Perhaps you forgot a comma?"),
    ("import", "ImportError: cannot import name 'Tensor' from partially initialized module 'torch' (circular import)"),
    ("crash", "the process died of SIGSEGV in stage launch"),
    ("fail", "h_in: max_abs 0.12 is over its limit 0.01"),
    ("install", "error: Failed to parse: `torch=2.13.0`"),
    (
        "build",
        "COPY failed: file not found in build context or excluded by .dockerignore: stat lock.txt: file does not exist",
    ),
    ("launch", "AssertionError: Tensor-likes are not close!"),
    ("launch", "ZeroDivisionError: division by zero"),
    ("launch", "TypeError: unsupported operand type(s) for ** or pow(): 'str' and 'int'"),
    ("launch", "KeyError: 'nvcc_options'"),
    ("import", "ModuleNotFoundError: No module named 'a_module_of_ours'"),
]


def seeded(matrix, rule: Rule) -> tuple[Plan, Case, Record]:
    """A case of the real plan that ended with the rule's recorded error."""
    whole = plan(matrix, "quick")
    case = next(case for case in whole.cases if not case.exclusion and not case.expectations)
    planned = Plan(whole.package, whole.tier, (Job(case.cell.platform, case.cell.toolchain, (case,)),))
    job = {f"version.{name}": version for name, version in rule.example_versions.items()}
    stage = "compile" if rule.example_stage in ("build", "") else rule.example_stage
    return planned, case, Record(case.id, "error", "run", stage, rule.example.splitlines()[-1], rule.example, job=job)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.name)
def test_a_rule_knows_its_recorded_error_before_any_other_does(rule):
    found = diagnose(rule.example, rule.example_stage, {f"version.{k}": v for k, v in rule.example_versions.items()})
    assert found is not None
    assert found.rule == rule.name


@pytest.mark.parametrize("rule", [r for r in rules() if r.example_stage != "build"], ids=lambda rule: rule.name)
def test_a_case_seeded_with_the_error_shows_cause_and_remedy_beside_it(matrix, rule):
    planned, case, record = seeded(matrix, rule)
    whole = document(matrix, compare(planned, [record]), Collected((), (record,), ()))
    cell = next(cell for cell in whole["cells"] if cell["id"] == case.cell.id)
    result = next(result for result in cell["results"] if result["name"] == case.name)
    assert result["diagnosis"]["rule"] == rule.name
    assert result["diagnosis"]["remedy"] == rule.remedy
    assert result["reason"] == record.message, "the raw error stays"
    assert whole["undiagnosed"] == []


@pytest.mark.parametrize(("stage", "error"), HELD_OUT)
def test_an_error_without_a_rule_is_not_known(stage, error):
    assert diagnose(error, stage) is None
    assert NOT_KNOWN in in_words(None)


def test_there_are_enough_rules_and_each_stands_for_itself():
    names = [rule.name for rule in rules()]
    assert len(names) == len(set(names)) >= 40
    assert sum(rule.recorded == "here" for rule in rules()) >= 40
    for rule in rules():
        assert not re.search(r"/root/|/tmp/", rule.example), rule.name
        assert not rule.cause.endswith((" ", ",")), rule.name


def test_stage_and_versions_narrow_a_rule():
    base = dict.fromkeys(("cause", "remedy"), "a sentence that is long enough") | {"recorded": "here"}
    rule = Rule(
        name="one", match="exactly", stages=["lower"], versions=["tilelang<0.1.10"], example="exactly this", **base
    )
    assert rule.knows("exactly", "lower", {"tilelang": "0.1.8"})
    assert not rule.knows("exactly", "launch", {"tilelang": "0.1.8"})
    assert not rule.knows("exactly", "lower", {"tilelang": "0.1.15"})
    assert not rule.knows("exactly", "lower", {"torch": "2.13"})


def test_what_is_not_known_is_listed_for_adding(matrix, tmp_path):
    planned = plan(matrix, "quick")
    cases = [case for case in planned.cases if not case.exclusion and not case.expectations][:3]
    records = [Record(case.id, "error", "run", "launch", "StrangeError: never seen", "", job={}) for case in cases]
    comparison = compare(planned, records)
    report(matrix, comparison, Collected((), tuple(records), ()), tmp_path)
    compat = json.loads((tmp_path / "compat.json").read_text())
    assert compat["undiagnosed"] == [{"stage": "launch", "message": "StrangeError: never seen", "cases": 3}]
    assert "Cause not known." in (tmp_path / "index.html").read_text()
    summary = (tmp_path / "summary.md").read_text()
    assert NOT_KNOWN in summary
    assert "StrangeError: never seen" in summary


def test_a_known_cause_is_in_every_form_of_the_report(matrix, tmp_path):
    rule = next(rule for rule in rules() if rule.name == "disk-full")
    planned, _, record = seeded(matrix, rule)
    report(matrix, compare(planned, [record]), Collected((), (record,), ()), tmp_path)
    for name in ("compat.json", "summary.md", "index.html"):
        text = (tmp_path / name).read_text()
        assert rule.cause in text, name
        assert "No space left on device" in text, name


def test_the_command_line_says_the_cause_of_what_is_piped_in():
    command = [sys.executable, "-m", "kernel_matrix", "diagnose"]
    run: Callable[[str], subprocess.CompletedProcess[str]] = lambda text: subprocess.run(  # noqa: E731
        command, cwd=ROOT, input=text, capture_output=True, text=True, check=False
    )
    known = run("RuntimeError: 0 active drivers ([]). There should only be one.")
    assert known.returncode == 0
    assert "[triton-no-driver]" in known.stdout
    unknown = run("something new")
    assert unknown.returncode == 1
    assert "not known" in unknown.stdout
