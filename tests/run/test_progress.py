"""The lines of a run that goes on, where no table is shown."""

from __future__ import annotations

import itertools

import pytest
from suites import Suite

from kernel_matrix.config.load import load
from kernel_matrix.config.plan import plan
from kernel_matrix.config.suite import Listed, with_tests
from kernel_matrix.run import progress


@pytest.mark.parametrize(("tests", "seconds", "some"), [(47, 60.0, 5), (3000, 20.0, 15), (40, 400.0, 1)])
def test_a_suite_that_takes_long_is_told_once_how_a_part_of_it_runs(
    tmp_path, monkeypatch, capsys, tests, seconds, some
):
    suite = Suite.made(tmp_path, {"tests/test_a.py": ""})
    listed = Listed({"a": tuple(("test_a", f"n{number}") for number in range(tests))})
    [job] = plan(with_tests(load(suite.root / "matrix.yaml"), listed), "quick").jobs
    clock = itertools.count(0.0, seconds / 3)  # which each case asks three times, or twice
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    console = progress.Console([job])
    for _ in range(10):
        console.case(job.id, "held")
    [line] = [line for line in capsys.readouterr().out.splitlines() if "--sample" in line]
    about = int(line.partition("--sample ")[2].partition(",")[0])
    assert some / 3 <= about <= 3 * some


def test_a_short_suite_is_told_of_no_part(tmp_path, monkeypatch, capsys):
    suite = Suite.made(tmp_path, {"tests/test_a.py": ""})
    listed = Listed({"a": tuple(("test_a", f"n{number}") for number in range(20))})
    [job] = plan(with_tests(load(suite.root / "matrix.yaml"), listed), "quick").jobs
    clock = itertools.count(0.0, 8.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    console = progress.Console([job])
    for _ in range(20):
        console.case(job.id, "held")
    said = capsys.readouterr().out
    assert "min left" in said
    assert "--sample" not in said
