"""A kept database gives the verdicts that all results make, whatever came, went, or changed its place since."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_columns import comparable, enter, expected_of, verdicts_of
from worlds import world

from kernel_matrix.results.columns.database import database
from kernel_matrix.results.columns.planned import of_plan
from kernel_matrix.results.columns.sql import one, rows
from kernel_matrix.judge.verdicts import judge
from kernel_matrix.results.compare import compare
from kernel_matrix.results.validation import Bounds


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    with database(tmp_path_factory.mktemp("kept") / "kept.duckdb", Bounds()) as connection:
        yield connection


def begin(connection, files):
    """Enter files into a database that has judged nothing, and return their numbers."""
    enter(connection, files)
    connection.execute("DELETE FROM kept_with").fetchall()
    return [number for (number,) in rows(connection, "SELECT source FROM sources ORDER BY position")]


def choose(connection, numbers):
    """Make these sources the present ones, in this order."""
    place = "CASE WHEN list_contains($1, source) THEN list_position($1, source) - 1 END"
    connection.execute(f"UPDATE sources SET position = {place}", [list(numbers)]).fetchall()


def changed(connection):
    return one(connection, "SELECT count(*) FROM changed_cells")


@pytest.mark.slow
@settings(max_examples=8)
@given(seed=st.integers(0, 2**32 - 1))
def test_kept_verdicts_are_those_of_all_results(kept, seed):
    random = Random(seed)
    plan, files, presence = world(Random(seed))
    by_number = dict(zip(begin(kept, files), files, strict=True))
    present = [*by_number]
    for _ in range(6):
        match random.choice(["fewer", "all", "order", "presence", "same", "day"]):
            case "fewer":
                present = random.sample(present, random.randint(0, len(present)))
            case "all":
                present = [*by_number]
            case "order":
                random.shuffle(present)
            case "presence" if presence:
                presence = replace(presence, changed={}, commit=random.choice(["abcdef123456", "another"]))
            case "day" if presence:
                presence = replace(presence, now=presence.now + timedelta(days=400))
        choose(kept, present)
        judge(kept, of_plan(plan), presence, is_kept=True)
        comparison = compare(plan, [record for number in present for record in by_number[number]], presence)
        assert comparable(verdicts_of(kept)) == comparable(expected_of(plan, comparison))


def test_only_cells_with_something_new_are_judged(kept):
    plan, files, presence = world(Random(3))
    planned, numbers = of_plan(plan), begin(kept, files)
    choose(kept, numbers)
    judge(kept, planned, presence, is_kept=True)
    assert changed(kept) == len(planned.cells)
    judge(kept, planned, presence, is_kept=True)
    assert changed(kept) == 0
    choose(kept, numbers[:-1])
    judge(kept, planned, presence, is_kept=True)
    assert 0 < changed(kept) <= len(planned.cells)


@pytest.mark.slow
def test_another_plan_forgets_all_verdicts(kept):
    plan, files, presence = world(Random(4))
    choose(kept, begin(kept, files))
    judge(kept, of_plan(plan), presence, is_kept=True)
    fewer = replace(plan, jobs=tuple(replace(job, cases=job.cases[1:]) for job in plan.jobs))
    judge(kept, of_plan(fewer), presence, is_kept=True)
    comparison = compare(fewer, [record for file in files for record in file], presence)
    assert comparable(verdicts_of(kept)) == comparable(expected_of(fewer, comparison))
