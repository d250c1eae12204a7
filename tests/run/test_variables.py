"""A job gets from the shell the variables of one list, and says which."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from common import Doubles
from records import middle, states

from kernel_matrix.run.environments import variables


def tell(doubles: Doubles, expression: str) -> str:
    """Run the case of two tokens with a kernel that raises this expression's value, and return the message."""
    path = doubles.root / "src" / "doubles" / "__init__.py"
    path.write_text(
        f'{path.read_text()}\n\ndef tell(x, out):\n    raise ValueError({expression})\n\n\nBACKENDS["wrong"] = tell\n'
    )
    return middle(doubles.run("wrong")).reason


@pytest.mark.slow
def test_a_variable_of_the_shell_reaches_no_process_of_a_job(doubles: Doubles, monkeypatch):
    for name in ("MHC_TVM_SCHEDULES", "PYTHONOPTIMIZE", "PYTEST_ADDOPTS", "TRITON_INTERPRET", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    names = tell(doubles, "sorted(os.environ)")
    for name in ("MHC_TVM_SCHEDULES", "PYTHONOPTIMIZE", "PYTEST_ADDOPTS", "TRITON_INTERPRET", "OMP_NUM_THREADS"):
        assert f"'{name}'" not in names
    assert "'PATH'" in names


@pytest.mark.slow
def test_what_a_job_gets_from_the_shell_stands_in_its_facts(doubles: Doubles, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("HTTPS_PROXY", "http://somebody:password@proxy")
    [cell] = doubles.run("good").cells
    facts = cell.cases[0].record.job
    assert facts["variable.CUDA_VISIBLE_DEVICES"] == "1"
    assert "variable.PATH" in facts
    assert "password" not in str(facts)
    assert "variable.HOME" not in facts


def test_a_vendor_and_its_programs_name_what_they_need():
    shell = dict.fromkeys(
        ("ROCR_VISIBLE_DEVICES", "CUDA_HOME", "CXX", "CC", "ASCEND_HOME_PATH", "TRITON_INTERPRET"), "x"
    )
    assert variables.inherited(shell=shell) == {name: "x" for name in shell if name != "TRITON_INTERPRET"}


@pytest.mark.slow
def test_a_suite_does_not_run_without_assertions(doubles: Doubles):
    doubles.edit("DOUBLES_SCRATCH:", 'PYTHONOPTIMIZE: "1", DOUBLES_SCRATCH:')
    comparison = doubles.run("good")
    assert states(comparison) == ["error"] * 3
    assert "Python runs without assertions" in middle(comparison).reason


def unsigned(journal: Path) -> str:
    return re.sub(r', "signature": "\w+"', "", journal.read_text())


@pytest.mark.slow
def test_a_run_that_gets_other_variables_does_not_go_on_with_the_results_of_before(doubles: Doubles, monkeypatch):
    doubles.run("good")
    journal = doubles.root / "build" / "jobs" / "here.good" / "journal.jsonl"
    before = unsigned(journal)
    doubles.run("good", resume=True)
    assert unsigned(journal) == before
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    [cell] = doubles.run("good", resume=True).cells
    assert unsigned(journal) != before
    assert cell.cases[0].record.job["variable.CUDA_VISIBLE_DEVICES"] == "1"
