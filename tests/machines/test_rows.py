"""The rows of a plan: every case is in one row, long jobs are cut by time, and no service gets too many rows."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from common import Doubles
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from kernel_matrix.base.errors import UserError
from kernel_matrix.ci import services
from kernel_matrix.ci.event_plan import make_row_plan
from kernel_matrix.ci.placing import of_service, rows, shards
from kernel_matrix.ci.services import buildkite, github, gitlab
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Job, plan
from kernel_matrix.machines import row_plan_file
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.machines.rows import cut, estimate


@pytest.fixture(scope="module")
def planned(matrix):
    return plan(matrix, "quick")


def second(_: object) -> float:
    return 1.0


def test_every_case_is_in_exactly_one_row(matrix, planned):
    for hosted_only in (False, True):
        made = rows(matrix, planned.jobs, lambda case: len(case.name), of_service(matrix, hosted_only=hosted_only))
        ids = [case.id for row in made for job in row.jobs for case in job.cases]
        assert Counter(ids) == Counter(case.id for case in planned.cases)
        assert len({row.id for row in made}) == len(made)
        jobs = [job.id for row in made for job in row.jobs]
        assert len(set(jobs)) == len(jobs), "a job's id is the name of its results"


def test_labels_go_down_to_the_architecture(matrix, planned):
    made = {row.id: row for row in rows(matrix, planned.jobs, second)}
    assert made["rocm.triton-3.7.gfx942"].labels == ("self-hosted", "linux", "x64", "amd", "gfx942")
    assert made["rocm.triton-3.7"].labels == ("ubuntu-24.04",), "the other targets are compiled on a hosted machine"
    assert {c.cell.target for c in made["rocm.triton-3.7.gfx942"].jobs[0].cases} == {"gfx942"}


def test_a_hosted_machine_is_started_for_emulated_gpus_where_the_toolchain_names_an_emulator(matrix, planned):
    made = {row.id for row in rows(matrix, planned.jobs, second, of_service(matrix, hosted_only=True)) if row.labels}
    assert "rocm.triton-3.7" in made
    assert not {"rocm.reference", "rocm.inductor"} & made, "on a hosted machine they could not run, nor compile"


def test_for_a_fork_no_row_is_on_a_machine_of_one_s_own(matrix, planned):
    assert {row.labels for row in rows(matrix, planned.jobs, second, of_service(matrix, hosted_only=True))} == {
        ("ubuntu-24.04",),
        (),
    }


def test_no_machine_is_started_for_what_none_can_do(matrix, planned):
    idle = [row for row in rows(matrix, planned.jobs, second) if not row.labels]
    assert {job.toolchain for row in idle for job in row.jobs} == {"reference", "inductor"}
    made = RowPlan("main", "quick", tuple(idle))
    assert json.loads(github.render(matrix, made)) == {"hosted": [], "own": [], "images": []}


@pytest.mark.parametrize("runner", ["ubuntu-24.04", "self-hosted, linux, big"])
def test_a_cpu_platform_without_machines_runs_on_the_machines_of_its_labels(doubles: Doubles, runner):
    doubles.edit("runner: [linux]", f"runner: [{runner}]")
    matrix = doubles.matrix
    made = make_row_plan(matrix, plan(matrix, "quick"))
    whole = json.loads(github.render(matrix, made))
    placed = whole["hosted" if runner.startswith("ubuntu") else "own"]
    assert {row["id"] for row in placed} == {row.id for row in made.rows} != set()
    assert not [row for row in made.rows if not row.labels]
    doubles.edit("targets: [any]", "targets: [any]\n    machines: []")
    assert json.loads(github.render(matrix, make_row_plan(doubles.matrix, plan(doubles.matrix, "quick")))) == {
        "hosted": [], "own": [], "images": []}, "a matrix that says that there is none has none"  # fmt: skip


def test_an_image_is_made_once_for_three_hosted_rows_of_a_platform_and_for_no_own_machine(matrix, planned):
    made = make_row_plan(matrix, planned, event="pull_request")
    hosted = Counter(row.platform for row in services.started(made) if not row.own)
    passed_on = services.images(matrix, made)
    assert passed_on == {name: hosted[name] for name in ("cpu-llvm", "cuda", "rocm")}
    assert hosted["webgpu"] == 2, "two rows take as long together if each makes the image"
    assert json.loads(github.render(matrix, made))["images"] == [{"platform": name} for name in passed_on]
    opencl = make_row_plan(matrix, planned, event="main")
    assert "opencl" not in services.images(matrix, opencl), "it has no container"


def test_a_gpu_platform_without_machines_is_compiled_on_a_hosted_one(matrix, planned):
    cuda = matrix.platforms["cuda"].model_copy(update={"machines": None})
    without = matrix.model_copy(update={"platforms": {**matrix.platforms, "cuda": cuda}})
    labels = {row.labels for row in rows(without, planned.jobs, second) if row.platform == "cuda"}
    assert labels == {("ubuntu-24.04",), ()}


def test_a_job_is_cut_by_measured_time_and_not_by_number(planned):
    job = planned.jobs[0]
    slow = {job.cases[0].id: 100.0, job.cases[1].id: 90.0}
    parts = cut(job, lambda case: slow.get(case.id, 1.0), 2)
    assert [part.shard for part in parts] == ["1of2", "2of2"]
    first, other = ({case.id for case in part.cases} for part in parts)
    assert len(first & slow.keys()) == len(other & slow.keys()) == 1
    assert len(first) < len(other), "the part with the slower case has fewer others"


@given(st.lists(st.floats(0.01, 500), min_size=1, max_size=40), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_shards_hold_every_case_and_differ_by_no_more_than_the_longest_case(planned, times, count):
    job = planned.jobs[0]
    cases = job.cases[: len(times)]
    seconds = dict(zip((case.id for case in cases), times, strict=True))
    parts = cut(Job(job.platform, job.toolchain, cases), lambda case: seconds[case.id], count)
    assert Counter(case.id for part in parts for case in part.cases) == Counter(seconds.keys())
    loads = [sum(seconds[case.id] for case in part.cases) for part in parts]
    assert max(loads) - min(loads) <= max(times) + 1e-6


def test_the_same_times_give_the_same_shards(planned):
    job = planned.jobs[0]
    assert shards(job, lambda case: len(case.name), 50) == shards(job, lambda case: len(case.name), 50)


def test_a_case_that_was_never_measured_takes_as_long_as_its_neighbours(matrix, planned):
    first, second_case = planned.jobs[0].cases[:2]
    seconds = estimate(matrix, planned.cases, {first.id: 42.0})
    assert (seconds(first), seconds(second_case)) == (42.0, 42.0)
    assert seconds(planned.jobs[-1].cases[0]) == matrix.ci.case_seconds


def edited(matrix: Matrix, **ci: object) -> Matrix:
    return matrix.model_copy(update={"ci": matrix.ci.model_copy(update=ci)})


def test_more_jobs_than_the_ci_service_takes_share_rows_with_their_like(matrix, planned):
    made = rows(edited(matrix, most_rows=10), planned.jobs, second)
    kinds = Counter(row.own for row in made if row.labels)
    assert max(kinds.values()) <= 10
    for row in made:
        assert {job.platform for job in row.jobs} == {row.platform}
    assert Counter(c.id for r in made for j in r.jobs for c in j.cases) == Counter(c.id for c in planned.cases)


def test_more_kinds_of_machines_than_rows_is_bad_input(matrix, planned):
    with pytest.raises(UserError, match=r"\d kinds of machines are more than the 1 rows"):
        rows(edited(matrix, most_rows=1), planned.jobs, second)


def test_a_plan_s_file_comes_back_as_it_was(matrix, planned, tmp_path):
    made = make_row_plan(matrix, planned, event="pull_request")
    path = tmp_path / "plan.json"
    path.write_text(row_plan_file.to_json(made))
    back = row_plan_file.from_json(path, planned)
    assert [(row.id, row.labels, row.jobs) for row in back.rows] == [(r.id, r.labels, r.jobs) for r in made.rows]
    assert back.left_out == made.left_out > 0, "the event leaves a toolchain out"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"schema_version": 1', '"schema_version": 9', "a plan of version 9"),
        ("/tokens1-", "/tokens999999-", "matrix.yaml has no case"),
        ('"rows": [', '"rowz": [', "Make the plan anew"),
    ],
)
def test_a_plan_s_file_of_another_matrix_is_bad_input(matrix, planned, tmp_path, old, new, words):
    path = tmp_path / "plan.json"
    path.write_text(row_plan_file.to_json(make_row_plan(matrix, planned)).replace(old, new, 1))
    with pytest.raises(UserError, match=words):
        row_plan_file.from_json(path, planned)


@pytest.mark.slow
def test_every_ci_service_gets_every_row_and_the_command_that_a_person_types(matrix, planned):
    made = make_row_plan(matrix, planned)
    ids = {row.id for row in services.started(made)}
    for_github = json.loads(github.render(matrix, made))
    assert {row["id"] for kind in ("hosted", "own") for row in for_github[kind]} == ids
    for_gitlab = YAML(typ="safe").load(gitlab.render(matrix, made))
    assert ids <= for_gitlab.keys()
    report = for_gitlab["report"]
    assert report["script"] == ["kernel-matrix report --plan build/plan.json build/results"]
    assert report["when"] == "always", "a red row is reported, too"
    assert "needs" not in report, "a job that needs some gets the artifacts of no others"
    assert for_gitlab["stages"].index(report["stage"]) > for_gitlab["stages"].index("test")
    assert for_gitlab["rocm.triton-3.7.gfx942"]["tags"][-1] == "gfx942"
    for_buildkite = YAML(typ="safe").load(buildkite.render(matrix, made))
    *steps, wait, report = for_buildkite["steps"]
    assert {step["label"] for step in steps} == ids
    assert len({step["key"] for step in steps}) == len(ids)
    assert (wait, report["key"]) == ({"wait": None, "continue_on_failure": True}, "report")
    command = "kernel-matrix run --platform rocm --plan build/plan.json --row rocm.triton-3.7.gfx942"
    assert for_gitlab["rocm.triton-3.7.gfx942"]["script"] == [command]
