"""A red test of Hypothesis says that it draws anew in each run, unless it draws the same."""

from __future__ import annotations

import unittest

import hypothesis
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase, InMemoryExampleDatabase
from hypothesis.stateful import RuleBasedStateMachine, rule
from suites import Suite
from together import by_day

from kernel_matrix.diagnosis import diagnose, harness_rules
from kernel_matrix.job.drawn import draws_anew


def drawn(*marks):
    def test(n):
        assert n < 100

    test = given(st.integers())(test)
    for mark in marks:
        test = mark(test)
    return test


def under(profile, **options):
    """Make a test with a profile of Hypothesis, which takes its "ci" by itself where CI is set."""
    former = settings.get_current_profile_name()
    settings.load_profile(profile)
    try:
        return drawn(settings(**options))
    finally:
        settings.load_profile(former)


class Machine(RuleBasedStateMachine):
    @rule()
    def step(self):
        pass


class Steady(Machine.TestCase):
    settings = settings(derandomize=True)


class Random(Machine.TestCase):
    settings = settings(derandomize=False, database=DirectoryBasedExampleDatabase(".hypothesis/examples"))


ANEW = {
    "as it is": under("default"),
    "with other settings": under("default", max_examples=3),
    "in CI, without its settings": under("ci", derandomize=False),
    "with a database of its own": drawn(settings(derandomize=False, database=DirectoryBasedExampleDatabase("kept"))),
    "of states": Random("runTest").runTest,
    "without a database": drawn(settings(derandomize=False, database=None)),
    "with one that ends with the process": drawn(settings(derandomize=False, database=InMemoryExampleDatabase())),
}
SAME = {
    "in CI": under("ci"),
    "derandomized": drawn(settings(derandomize=True, database=None)),
    "with a seed": drawn(seed(0)),
    "with a seed of zero and settings": drawn(settings(derandomize=False), seed(0)),
    "of states, derandomized": Steady("runTest").runTest,
    "none of Hypothesis": lambda: None,
    "of unittest": unittest.FunctionTestCase(print).runTest,
    "no function": None,
}


@pytest.mark.parametrize("name", by_day(1, ANEW))
def test_a_test_that_draws_by_chance_says_so(name):
    said = draws_anew(ANEW[name])
    assert "draws other examples in each run" in said
    assert ("has no folder" in said) == name.startswith(("in CI", "without a database", "with one that ends"))
    assert said.endswith(" kept") == ("of its own" in name)


@pytest.mark.parametrize("name", by_day(1, SAME))
def test_a_test_that_draws_the_same_says_nothing(name):
    assert draws_anew(SAME[name]) == ""


@pytest.mark.nightly
def test_a_seed_of_the_command_line_counts(monkeypatch):
    monkeypatch.setattr(hypothesis.core, "global_force_seed", 0)
    assert draws_anew(ANEW["as it is"]) == ""


SUITE = """
from hypothesis import given, settings, strategies as st

@settings(derandomize=False)
@given(st.integers())
def test_small(n): assert n < 100

@settings(derandomize=False)
@given(st.integers())
def test_any(n): assert n == n

@settings(derandomize=True)
@given(st.integers())
def test_same(n): assert n < 100

@settings(derandomize=False)
@given(st.integers())
def test_memory(n): raise MemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
"""


@pytest.mark.slow
def test_the_diagnosis_of_a_red_test_says_so(tmp_path):
    suite = Suite.made(tmp_path, {"tests/test_a.py": SUITE})
    suite.run()
    found = {}
    for record in suite.results().records:
        rule = diagnose(f"{record.message}\n{record.detail}", record.stage or "", rules=harness_rules())
        found[record.case.rpartition("/")[2]] = record.outcome, rule.rule if rule else None
    assert found["test_small"] == ("fail", "draws-anew")
    assert found["test_any"] == ("pass", None)
    assert found["test_same"] == ("fail", "test-failed")
    assert found["test_memory"][1] not in (None, "draws-anew")
