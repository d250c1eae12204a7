"""The plan lists every case once, with a name that says what it is."""

from __future__ import annotations

import re
from itertools import combinations, product

import pytest
from ruamel.yaml import YAML

from kernel_matrix import pipeline
from kernel_matrix.audit.plan import planned as audit
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.load import load
from kernel_matrix.config.model import Tier
from kernel_matrix.config.plan import case_name, plan
from kernel_matrix.config.selection import Selection, narrow
from kernel_matrix.pipeline import load as load_project

TIERS: tuple[Tier, ...] = ("quick", "full")


@pytest.mark.parametrize("tier", TIERS)
def test_sizes_that_are_and_are_not_a_multiple_of_a_block_meet_the_other_axes(matrix, tier):
    """The full tier has all combinations, and the quick one every two values."""
    planned = plan(matrix, tier)
    job = next(job for job in planned.jobs if job.id == "cpu-llvm.reference")
    axes = [case.axes for case in job.cases if case.cell.id.endswith("/mhc_pre.forward") and case.axes["scale"] == 1]
    found = {tuple(str(one[name]) for name in ("tokens", "streams", "hidden", "dtype")) for one in axes}
    every = set(product(("1", "7", "128", "1000"), ("2", "4"), ("512", "200"), ("fp32", "bf16")))
    if tier == "full":
        assert found >= every
    for one, other in combinations(range(4), 2):
        assert {(values[one], values[other]) for values in found} >= {(values[one], values[other]) for values in every}


@pytest.mark.slow
def test_ids_are_unique_and_every_case_is_in_one_job(matrix):
    ids = [case.id for case in plan(matrix, "full").cases]
    assert len(ids) == len(set(ids)) > 0


@pytest.mark.slow
def test_the_full_tier_holds_the_quick_one(matrix):
    quick, full = ({case.id for case in plan(matrix, tier).cases} for tier in ("quick", "full"))
    assert quick < full


def test_names_say_every_axis():
    axes = {"tokens": 7, "dtype": "bf16", "gamma": True, "scale": 0.1}
    assert case_name(axes) == "tokens7-bf16-gamma-scale0.1"
    assert case_name({**axes, "gamma": False}) == "tokens7-bf16-no_gamma-scale0.1"


def test_a_plan_is_a_pure_function_of_the_matrix(matrix):
    assert plan(matrix, "quick") == plan(matrix, "quick")


def test_a_group_may_be_for_one_direction_only(matrix):
    cases = plan(matrix, "quick").jobs[0].cases
    tokens = {way: {c.axes["tokens"] for c in cases if c.cell.op == "mhc_pre" and c.cell.direction == way}
              for way in ("forward", "backward")}  # fmt: skip
    assert 1000 in tokens["forward"]
    assert 1000 not in tokens["backward"]


def test_a_toolchain_is_planned_for_the_operators_that_it_has(doubles):
    triple = "triple: { directions: [forward], axes: [tokens], cases: { quick: [{ tokens: 1 }] } }"
    doubles.edit("\nops:\n", f"\nops:\n  {triple}\n")
    doubles.edit("backend: good, lock", "backend: good, ops: [double], lock")
    planned = plan(load(doubles.root / "matrix.yaml"), "quick")
    ops = {(case.cell.toolchain, case.cell.op) for case in planned.cases}
    assert {op for toolchain, op in ops if toolchain == "good"} == {"double"}
    assert {op for toolchain, op in ops if toolchain == "wrong"} == {"double", "triple"}


def test_a_lane_may_take_fewer_targets(doubles):
    doubles.edit("targets: [any]", "targets: [any, other]")
    doubles.edit("toolchains: [good,", "toolchains: [{ toolchain: good, targets: [other] },")
    planned = plan(load(doubles.root / "matrix.yaml"), "quick")
    assert {case.cell.target for case in planned.jobs[0].cases} == {"other"}
    assert {case.cell.target for case in planned.jobs[1].cases} == {"any", "other"}


def test_every_excluded_case_is_planned_with_its_reason(matrix):
    excluded = [case for case in plan(matrix, "quick").cases if case.exclusion]
    assert {case.cell.target for case in excluded} == {"x86-64-v3", "oclgrind"}
    interpreted = [case for case in excluded if case.cell.platform == "cpu-llvm"]
    assert {case.axes["dtype"] for case in interpreted if case.axes["tokens"] != 16384} == {"bf16"}
    assert {case.cell.toolchain for case in interpreted} == {"triton-3.7"}


def test_a_platform_toolchain_has_only_the_cases_that_it_chooses(doubles):
    doubles.edit("toolchains: [good,", "toolchains: [{ toolchain: good, cases: { tokens: [2, 3] } },")
    names = [case.name for case in plan(doubles.matrix, "quick").cases if case.cell.toolchain == "good"]
    assert names == ["tokens2", "tokens3"]
    assert sum(case.cell.toolchain == "wrong" for case in plan(doubles.matrix, "quick").cases) == 3


def test_a_choice_for_the_quick_tier_leaves_the_full_one_whole(doubles):
    doubles.edit("- { tokens: [1, 2, 3] }", "- { tokens: [1, 2, 3] }\n      full:\n        - { tokens: [4, 5] }")
    doubles.edit(
        "toolchains: [good,", "toolchains: [{ toolchain: good, cases: { tokens: [1, 2, 4] }, quick: { tokens: 2 } },"
    )

    def names(tier: Tier) -> list[str]:
        return [case.name for case in plan(doubles.matrix, tier).cases if case.cell.toolchain == "good"]

    assert names("quick") == ["tokens2"]
    assert names("full") == ["tokens1", "tokens2", "tokens4"]
    project = load_project(doubles.root / "matrix.yaml")
    assert [pipeline.plan(project, tier) for tier in TIERS] == [plan(doubles.matrix, tier) for tier in TIERS]
    content = YAML(typ="safe").load((doubles.root / "matrix.yaml").read_text())
    assert [sorted(audit(content, tier)) for tier in TIERS] == [
        sorted(case.id for case in plan(doubles.matrix, tier).cases) for tier in TIERS
    ]


def test_of_several_choices_the_first_that_leaves_a_cell_a_case_holds(doubles):
    more = "more: { directions: [forward], axes: [tokens], cases: { quick: [{ tokens: [7, 8] }] } }"
    doubles.edit("ops:\n", f"ops:\n  {more}\n")
    doubles.edit(
        "toolchains: [good,", "toolchains: [{ toolchain: good, quick: [{ tokens: 9 }, { tokens: [2, 8] }, {}] },"
    )
    good = [case for case in plan(doubles.matrix, "quick").cases if case.cell.toolchain == "good"]
    assert [case.name for case in good if case.cell.op == "more"] == ["tokens8"]
    assert [case.name for case in good if case.cell.op == "double"] == ["tokens2"]
    content = YAML(typ="safe").load((doubles.root / "matrix.yaml").read_text())
    assert sorted(audit(content, "quick")) == sorted(case.id for case in plan(doubles.matrix, "quick").cases)
    load(doubles.root / "matrix.yaml")
    doubles.edit("{ tokens: [2, 8] }, {}]", "{ tokens: 8 }, { token: 1 }]")
    with pytest.raises(UserError, match="unknown axis 'token'"):
        load(doubles.root / "matrix.yaml")
    doubles.edit(", { token: 1 }]", "]")
    with pytest.raises(UserError, match=r"no case of double\.forward has these values"):
        load(doubles.root / "matrix.yaml")


def test_without_cases_of_the_full_tier_a_choice_for_the_quick_one_still_makes_two_plans(doubles):
    doubles.edit("toolchains: [good,", "toolchains: [{ toolchain: good, quick: { tokens: 2 } },")
    project = load_project(doubles.root / "matrix.yaml")
    assert [pipeline.plan(project, tier) for tier in TIERS] == [plan(doubles.matrix, tier) for tier in TIERS]
    assert len(pipeline.plan(project, "full").cases) == len(pipeline.plan(project, "quick").cases) + 2


@pytest.mark.parametrize("key", ["cases", "quick"])
@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        ("{ tokens: 9 }", "no case of double.forward has these values"),
        ("{ token: 1 }", "unknown axis 'token'. Did you mean 'tokens'?"),
    ],
)
def test_a_choice_of_cases_that_leaves_none_is_refused(doubles, key, chosen, reason):
    doubles.edit("toolchains: [good,", f"toolchains: [{{ toolchain: good, {key}: {chosen} }},")
    with pytest.raises(UserError, match=re.escape(reason)):
        load(doubles.root / "matrix.yaml")


def test_a_job_has_the_lock_of_its_platform_where_there_is_one(matrix):
    assert matrix.lock_of("webgpu", "tvm-0.27") == "ci/locks/tvm-0.27-webgpu.txt"
    assert matrix.lock_of("opencl", "tvm-0.27") == "ci/locks/tvm-0.27-opencl.txt"
    assert matrix.lock_of("metal", "tvm-0.27") == matrix.lock_of("", "tvm-0.27") == "ci/locks/tvm-0.27.txt"
    assert {"ci/locks/tvm-0.27.txt", "ci/locks/tvm-0.27-webgpu.txt"} <= set(matrix.locks)


def test_a_toolchain_may_have_other_cases_for_other_targets(doubles):
    doubles.edit("targets: [any]", "targets: [any, other]")
    doubles.edit(
        "toolchains: [good,",
        "toolchains: [{ toolchain: good, targets: [any] }, "
        "{ toolchain: good, targets: [other], cases: { tokens: 2 } },",
    )
    planned = plan(doubles.matrix, "quick")
    assert [job.toolchain for job in planned.jobs].count("good") == 1, "they are one job"
    names = [(case.cell.target, case.name) for case in planned.cases if case.cell.toolchain == "good"]
    assert [name for target, name in names if target == "other"] == ["tokens2"]
    assert len([name for target, name in names if target == "any"]) == 3


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ("", "", "'good' is here twice for any, other, so its cells would be too."),
        (", targets: [any]", "", "'good' is here twice for any, so its cells would be too."),
        (", targets: [any]", ", targets: [other], runs: false", "an earlier entry of 'good' has another 'runs'"),
        (", targets: [any]", ", targets: [other], cases: { tokens: 9 }", "no case of double.forward has these values"),
        (
            ", targets: [any]",
            ", targets: [other], cases: { tokens: 2 }, quick: { tokens: 1 }",
            "no case of double.forward has these values",
        ),
    ],
)
def test_entries_of_one_toolchain_share_no_target_and_one_job(doubles, first, second, reason):
    doubles.edit("targets: [any]", "targets: [any, other]")
    doubles.edit("toolchains: [good,", f"toolchains: [{{ toolchain: good{first} }}, {{ toolchain: good{second} }},")
    with pytest.raises(UserError, match=re.escape(reason)):
        load(doubles.root / "matrix.yaml")


@pytest.mark.parametrize(
    ("names", "selected"),
    [
        (["*"], ["good/tokens1", "good/tokens2", "good/tokens3", "wrong/tokens1", "wrong/tokens2", "wrong/tokens3"]),
        (["*/good/*"], ["good/tokens1", "good/tokens2", "good/tokens3"]),
        (["here/any/*/double.forward/tokens2"], ["good/tokens2", "wrong/tokens2"]),
        (["here/*/wrong/double.*", "*/tokens1"], ["good/tokens1", "wrong/tokens1", "wrong/tokens2", "wrong/tokens3"]),
        (["here/any/good/double.forward/tokens3"], ["good/tokens3"]),
    ],
)
def test_a_star_stands_for_any_text_in_the_name_of_a_case(doubles, names, selected):
    planned = plan(doubles.matrix, "quick")
    selection = Selection(toolchains=("good", "wrong"), cases=tuple(names))
    jobs = narrow(doubles.matrix, planned, planned.jobs, selection)
    assert [f"{case.cell.toolchain}/{case.name}" for job in jobs for case in job.cases] == selected


@pytest.mark.parametrize("name", ["*/tokens9", "tokens1", "here/any/[gw]*/*", "here/any/good/double.forward/tokens?"])
def test_a_name_of_no_case_is_refused_with_and_without_a_star(doubles, name):
    planned = plan(doubles.matrix, "quick")
    with pytest.raises(UserError, match=re.escape(f"--case {name}: there is no such case in the plan.")):
        narrow(doubles.matrix, planned, planned.jobs, Selection(cases=(name,)))


def test_a_star_means_the_full_tier_only_where_the_quick_one_has_nothing_of_it(doubles):
    doubles.edit("- { tokens: [1, 2, 3] }", "- { tokens: [1, 2] }\n      full:\n        - { tokens: [3, 14] }")
    project = load_project(doubles.root / "matrix.yaml")
    assert pipeline.plan_for(project, Selection(cases=("*/tokens1*",))).tier == "quick"
    assert pipeline.plan_for(project, Selection(cases=("*/tokens14*",))).tier == "full"
    assert pipeline.plan_for(project, Selection(cases=("*/tokens1", "*/tokens3"))).tier == "full"
