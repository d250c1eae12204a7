"""The formula of the budget stands in `job/budget.py` and in the judge's `07_limits.sql`; the audit has its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from judges import judged

from kernel_matrix.audit.states import Judge
from kernel_matrix.config.plan import plan
from kernel_matrix.job.budget import Pair, Rules, cap_at, limits, most_misrounded
from kernel_matrix.store.database import rows
from kernel_matrix.store.record import Record

SOURCE = "source: chosen for the tests of the harness"
OUTPUTS = 60  # of each case: with itemsize, declared limits and budgets of their own, each kind comes several times
SHARE = 0.02


@pytest.fixture
def matrix(doubles):
    entries = [
        f"{{ op: double, factor: {{ limit: 2.5, {SOURCE} }} }}",
        f"{{ op: double, output: o1, cap: {{ limit: 1.0e-5, {SOURCE} }}, rounded: {{ limit: 3, {SOURCE} }} }}",
        f"{{ op: double, direction: forward, output: o2, factor: {{ limit: 40, {SOURCE} }} }}",
    ]
    given = f"  misrounded: {{ limit: {SHARE}, {SOURCE} }}\n  budgets: [{', '.join(entries)}]\ntoolchains:\n"
    doubles.edit("toolchains:\n", given)
    return doubles.matrix


def drawn(random: Random) -> dict[str, float]:
    """Return the figures of an output as a job would measure them, from zero to far beyond any budget."""

    def size() -> float:
        return random.choice([0.0, 10 ** random.uniform(-12, 3), 2.0 ** random.randint(-30, 6)])

    return {
        "elements": float(random.choice([1, 7, 1024, 10**7])),
        **{f"{name}_{norm}": size() for name in ("floor", "conditioning") for norm in ("max_abs", "rel_fro")},
        "largest": random.choice([0.0, 1.0, random.uniform(0, 3), 10 ** random.uniform(-30, 30)]),
        "unit": random.choice([1.0, 10 ** random.uniform(-3, 3)]),
        "steps": float(random.choice([1, 2, 48, 4096])),
        "itemsize": float(random.choice([1, 2, 4, 8])),
        "floor_misrounded": random.choice([0.0, random.random()]),
        **dict.fromkeys(("nan", "inf", "max_abs", "rel_fro", "misrounded", "growth"), 0.0),
    }


def by_job(figures: dict[str, float], rules: Rules) -> Pair:
    """Return the limits as a job makes them."""
    return limits(
        Pair(figures["floor_max_abs"], figures["floor_rel_fro"]),
        Pair(figures["conditioning_max_abs"], figures["conditioning_rel_fro"]),
        factor=rules.factor,
        rounded=rules.rounded,
        ulps=rules.ulps,
        cap=rules.cap * figures["unit"],
        **{name: figures[name] for name in ("largest", "itemsize", "steps")},
    )


def worlds(cases) -> Iterator[tuple[Record, dict[str, dict[str, float]]]]:
    """Yield records with the figures of their outputs, and the limits that a job has for them."""
    random = Random(7)
    for case in cases:
        outputs = {f"o{number}{random.choice(['', '@fast'])}": drawn(random) for number in range(OUTPUTS)}
        for output, figures in outputs.items():
            made = by_job(figures, case.owed.rules(output))
            figures |= {"limit_max_abs": made.max_abs, "limit_rel_fro": made.rel_fro}
        metrics = {f"{output}.{name}": value for output, figures in outputs.items() for name, value in figures.items()}
        job = {"platform": case.cell.platform, "toolchain": case.cell.toolchain}
        yield Record(case.id, "pass", case.cell.action, metrics=metrics, job=job), outputs


def test_the_judge_the_job_and_the_audit_have_the_same_limits(matrix):
    planned = plan(matrix, "quick")
    planned = replace(planned, jobs=planned.jobs[:3])
    made = list(worlds(planned.cases))
    with judged(planned, [record for record, _ in made]) as results:
        question = """
            SELECT "case", output, most_abs, most_rel, most_misrounded
            FROM limits JOIN deciding USING (ordinal) JOIN cases USING (record)
        """
        of_judge = {(case, output): rest for case, output, *rest in rows(results.connection, question)}
    assert len(of_judge) == len(planned.cases) * OUTPUTS == 9 * 60
    audit = Judge.__new__(Judge)
    audit.matrix = {**matrix.model_dump(), "accuracy": matrix.accuracy.limits()}
    capped = 0
    for (record, outputs), case in zip(made, planned.cases, strict=True):
        for output, figures in outputs.items():
            most_abs, most_rel, misrounded = of_judge[record.case, output]
            place = record.case, output, figures
            assert most_abs == pytest.approx(figures["limit_max_abs"], rel=1e-12, abs=0), place
            assert most_rel == pytest.approx(figures["limit_rel_fro"], rel=1e-12, abs=0), place
            narrow = figures["itemsize"] < 4
            share = most_misrounded(SHARE, figures["elements"], figures["floor_misrounded"])
            assert misrounded == (pytest.approx(share, rel=1e-12) if narrow else None), place
            rules = case.owed.rules(output)
            capped += most_abs == cap_at(rules.cap * figures["unit"], figures["largest"], int(figures["itemsize"]))
            name = output.partition("@")[0]
            possible = not (figures["largest"] and figures["limit_rel_fro"] >= 1)  # such a limit would hold nothing
            assert audit._is_wrong("double.forward", {"direction": "forward"}, name, figures) != possible, place
            for limit in ("limit_max_abs", "limit_rel_fro"):
                edited = {**figures, limit: figures[limit] * (1 + 1e-6)}
                wrong = audit._is_wrong("double.forward", {"direction": "forward"}, name, edited)
                assert wrong or not figures[limit], place
            if narrow:
                least = {**figures, "misrounded": min(1.0, share) * (1 - 1e-9)}
                assert audit._is_wrong("double.forward", {"direction": "forward"}, name, least) != possible, place
                most = {**figures, "misrounded": share * (1 + 1e-6)}
                assert audit._is_wrong("double.forward", {"direction": "forward"}, name, most), place
    assert 50 < capped < 400, "the cap decides for some of them"
