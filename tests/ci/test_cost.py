"""The cost of an event, what a budget leaves out, the one target of a label, and the kind of machine of a row."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from common import Doubles

from kernel_matrix.base.errors import UserError
from kernel_matrix.ci import cost, preference
from kernel_matrix.ci.event_plan import Known, make_row_plan
from kernel_matrix.ci.placing import of_service
from kernel_matrix.ci.preference import Busy
from kernel_matrix.ci.target import asked_for
from kernel_matrix.cli import main
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Plan, plan
from kernel_matrix.machines import row_plan_file, row_times
from kernel_matrix.machines.job_status import JobStatus
from kernel_matrix.machines.row_plan import RowPlan, is_sentinel
from kernel_matrix.machines.row_times import RowTime
from kernel_matrix.machines.rows import estimate


@pytest.fixture(scope="module")
def planned(matrix) -> Plan:
    return plan(matrix, "quick")


def with_budget(matrix: Matrix, minutes: float | None) -> Matrix:
    """Return the project's matrix with this budget of a pull request."""
    events = matrix.ci.events
    asked = events["pull_request"].model_copy(update={"minutes": minutes})
    ci = matrix.ci.model_copy(update={"events": {**events, "pull_request": asked}})
    return matrix.model_copy(update={"ci": ci})


def cells_of(made: RowPlan) -> Counter[str]:
    return Counter(case.cell.id for job in made.jobs for case in job.cases)


def minutes_of(matrix: Matrix, planned: Plan, made: RowPlan, known: Known) -> float:
    seconds = estimate(matrix, planned.cases, known.seconds)
    return cost.total(cost.by_lane(made, seconds, known.seconds)).minutes


def test_the_lanes_cost_what_their_rows_take_and_a_guess_is_counted_as_one(matrix, planned):
    measured = {case.id: 3.0 for case in planned.cases if case.cell.platform == "cuda"}
    made = make_row_plan(matrix, planned, Known(measured))
    lanes = cost.by_lane(made, estimate(matrix, planned.cases, measured), measured)
    assert sum(lane.minutes for lane in lanes.values()) == pytest.approx(sum(row.seconds for row in made.rows) / 60)
    assert not any(lane.guessed for name, lane in lanes.items() if name.startswith("cuda/"))
    rocm = lanes["rocm/gfx942/reference"]
    assert rocm.guessed == rocm.cases > 0
    assert "cuda/sm_80/reference" not in lanes, "no machine is started for it"
    minutes = f"{rocm.minutes:.1f} for {rocm.cases} cases, of which {rocm.minutes:.1f} a guess: {rocm.cases} never"
    text = "\n".join(cost.lines(made, lanes, {"rocm": 120.0}))
    assert f"rocm/gfx942/reference: {minutes} measured" in text
    rows = Counter(row.platform for row in made.rows if row.labels)
    assert f"image, environments): {2 * rows['rocm']} for {rows['rocm']} rows" in text
    assert f"are not known of {rows.total() - rows['rocm']} rows" in text


SINKHORN, RED = "src/mhc/ops/sinkhorn.py", "opencl/pocl/tvm-0.27/mhc_post.backward"


@pytest.mark.parametrize("setup", [0.0, 60.0])
def test_a_budget_takes_whole_cells_that_tell_most_and_says_what_it_leaves_out(matrix, planned, tmp_path, setup):
    matrix = with_budget(matrix, 30)
    known = Known(red=frozenset({RED}), setup=dict.fromkeys(matrix.platforms, setup))
    everything = cells_of(make_row_plan(with_budget(matrix, None), planned, known, event="pull_request"))
    made = make_row_plan(matrix, planned, known, event="pull_request", paths=[SINKHORN])
    taken = cells_of(made)
    spent = minutes_of(matrix, planned, made, known)
    begun = {(job.platform, job.toolchain) for row in made.rows if row.labels for job in row.jobs}
    assert 28 < spent + len(begun) * setup / 60 <= 30 + 1e-6
    assert taken.items() <= everything.items(), "a cell is taken whole"
    assert {cell for cell in everything if is_sentinel(matrix, cell)} <= taken.keys()
    [note] = made.notes
    left = everything - taken
    assert f"30 machine minutes (ci.events.pull_request): {len(left)} of {len(everything)} cells" in note
    assert f"{left.total()} of {everything.total()} cases" in note
    assert "Taken first: the operator sinkhorn, which was changed; sentinels; what was red in the last report." in note
    assert made.left_out == len(planned.cases) - taken.total()
    (tmp_path / "plan.json").write_text(row_plan_file.to_json(made))
    assert row_plan_file.from_json(tmp_path / "plan.json", planned).notes == made.notes


def test_a_budget_takes_changed_operators_before_what_was_red_and_that_before_the_rest(matrix, planned):
    def taken(minutes: float, *red: str, paths: list[str] | None = None) -> Counter[str]:
        known = Known(red=frozenset(red))
        return cells_of(make_row_plan(with_budget(matrix, minutes), planned, known, event="pull_request", paths=paths))

    assert RED in taken(16, RED)
    assert RED not in taken(16)
    of_change, of_all = taken(16, RED, paths=[SINKHORN]), taken(16, RED)
    assert RED not in of_change, "the operator that was changed took all that was left"
    changed, as_ever = (sum("/sinkhorn." in cell for cell in taken) for taken in (of_change, of_all))
    assert changed > as_ever > 0


def test_sentinels_run_whatever_the_budget_is(matrix, planned):
    everything = cells_of(make_row_plan(with_budget(matrix, None), planned, event="pull_request"))
    least = cells_of(make_row_plan(with_budget(matrix, 0.01), planned, event="pull_request"))
    assert {cell for cell in everything if is_sentinel(matrix, cell)} <= least.keys()
    assert len(least) < len(everything) / 2


def test_a_budget_that_suffices_leaves_nothing_out(matrix, planned):
    free = make_row_plan(with_budget(matrix, None), planned, event="pull_request")
    enough = make_row_plan(with_budget(matrix, 1000), planned, event="pull_request")
    assert (enough.rows, enough.notes) == (free.rows, ())


def test_a_label_asks_for_one_target_whatever_was_changed(matrix, planned):
    made = make_row_plan(matrix, planned, event="pull_request", paths=["README.md"], only_target="rocm gfx942")
    assert {(case.cell.platform, case.cell.target) for job in made.jobs for case in job.cases} == {("rocm", "gfx942")}
    assert {job.toolchain for job in made.jobs} > {"triton-3.7", "tilelang-0.1.8"}, "the event has not the second"
    assert made.notes == ("Only rocm gfx942 was asked for, by a label. Nothing is known here of the other cases.",)
    assert made.left_out > 0


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ("[]", ""),
        ("", ""),
        ("null", ""),
        ('["full matrix", "matrix: gfx942"]', "gfx942"),
        ('["matrix:  cuda  sm_90"]', "cuda sm_90"),
    ],
)
def test_the_label_of_a_target_is_read_from_all_labels(matrix, labels, words):
    assert asked_for(matrix, labels) == words


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ('["matrix: gfx942", "matrix: sm_90"]', "2 labels begin with 'matrix:'"),
        ('["matrix: gfx943"]', "Did you mean 'gfx942'"),
        ('["matrix: $(touch x)"]', r"\$\(touch: there is no such platform, target or toolchain"),
        ('{"matrix": 1}', "a list in JSON"),
        ("matrix: gfx942", "a list in JSON"),
    ],
)
def test_a_label_that_names_nothing_is_bad_input(matrix, labels, sentence):
    with pytest.raises(UserError, match=sentence):
        asked_for(matrix, labels)


def test_names_that_no_cell_has_together_are_bad_input(matrix, planned):
    with pytest.raises(UserError, match="'matrix: cuda gfx942' names things that no cell has together"):
        make_row_plan(matrix, planned, only_target="cuda gfx942")


@pytest.fixture
def hopper(matrix) -> Matrix:
    cuda = matrix.platforms["cuda"].model_copy(update={"machines": {"sm_90": ["h200", "h100"]}})
    return matrix.model_copy(update={"platforms": {**matrix.platforms, "cuda": cuda}})


def seen(kind: str, machine: str) -> RowTime:
    return RowTime(row=machine, platform="cuda", labels=("self-hosted", kind, "sm_90"), machine=machine)


@pytest.mark.parametrize(
    ("busy", "kind"),
    [
        (None, "h200"),
        ([], "h200"),
        ([Busy(labels=("h200", "sm_90"), machine="one")], "h100"),
        ([Busy(labels=("h200",))], "h100"),
        ([Busy(labels=("h200",)), Busy(labels=("sm_90", "h100"), machine="other")], "h200"),
    ],
    ids=["nobody asked", "all idle", "the best is busy", "a job waits for the best", "all busy"],
)
def test_a_row_asks_for_the_first_kind_of_machine_that_is_idle(hopper, planned, busy, kind):
    kinds, [sentence] = preference.choose(hopper, busy, [seen("h200", "one"), seen("h100", "other")])
    assert kinds == {("cuda", "sm_90"): kind}
    assert sentence.startswith(f"cuda/sm_90 goes to {kind}, of h200, h100: the first")
    made = make_row_plan(hopper, planned, machines=of_service(hopper, kinds))
    labels = {row.labels for row in made.rows if row.id.startswith("cuda.triton-3.7.sm_90")}
    assert labels == {("self-hosted", "linux", "x64", "nvidia", kind, "sm_90")}


def test_a_machine_that_was_never_seen_is_not_known_to_be_idle(hopper):
    kinds, _ = preference.choose(hopper, [], [seen("h100", "other")])
    assert kinds["cuda", "sm_90"] == "h100"
    assert preference.choose(hopper, [], [])[1] == [
        "cuda/sm_90 goes to h200, of h200, h100: the first: of no kind an idle machine is known"
    ]
    assert preference.has_choice(hopper)


def test_without_a_choice_of_machines_nobody_is_asked(matrix):
    assert not preference.has_choice(matrix)
    assert preference.choose(matrix, [], []) == ({}, [])


def test_a_machine_of_a_kind_is_checked_as_matrix_yaml_writes_it(doubles: Doubles, capsys):
    doubles.edit("targets: [any]", "targets: [any]\n    machines: { any: [big, small], other: [big] }")
    assert main(["check", "--matrix", str(doubles.root / "matrix.yaml")]) == 2
    assert "'other'" in capsys.readouterr().err


def test_the_times_of_a_row_are_its_wait_and_what_it_takes_beside_its_cases(matrix, planned):
    made = make_row_plan(matrix, planned)
    [row] = [row for row in made.rows if row.id == "rocm.triton-3.7.gfx942"]
    times = {"created": "2026-01-02T03:00:00Z", "started": "2026-01-02T03:01:30Z", "ended": "2026-01-02T03:21:30Z"}
    status = JobStatus(row=row.id, status="completed", machine="box-1", **times)
    seconds = {case.id: 2.0 for job in row.jobs for case in job.cases}
    [time] = row_times.of_run(made, {row.id: status}, seconds)
    assert (time.queued, time.ran, time.cases) == (90, 1200, 2 * len(seconds))
    assert row_times.setup([time]) == {"rocm": 1200 - 2 * len(seconds)}
    [without] = row_times.of_run(made, {row.id: status}, {})
    assert without.cases is None, "nobody knows what its cases took"
    assert row_times.setup([without]) == {}
    waits = status.model_copy(update={"machine": "", "status": "queued", "started": times["created"], "ended": ""})
    [none] = row_times.of_run(made, {row.id: waits})
    assert (none.queued, none.ran) == (None, None), "GitHub says a start of a job that waits, too"
    assert row_times.notes(made, {row.id: status}) == (
        f"Waiting for a machine: [{', '.join(row.labels)}] 1.5 minutes (the median of 1 row; at most 1.5).",
    )


@pytest.mark.parametrize("text", ["", "{}", '[{"row": 1}]', '[{"row": "a", "platform": "b", "labels": [], "ran": -1}]'])
def test_times_of_another_form_are_no_times(tmp_path, text):
    (tmp_path / row_times.FILE).write_text(text)
    assert row_times.read(tmp_path) == ()


def test_what_waits_and_runs_is_asked_with_the_history_only_where_there_is_a_choice(doubles: Doubles, monkeypatch):
    asked = []

    def gh(*words: str, **_: object) -> str:
        asked.append(path := next(word for word in words if word.startswith("repos/")))
        if path.endswith("/jobs?per_page=100"):
            ended = {"status": "completed", "labels": ["big"], "runner_name": "gone"}
            runs = {"status": "in_progress", "labels": ["linux", "big"], "runner_name": "one"}
            waits = {"status": "queued", "labels": ["small"], "runner_name": None}
            return "\n".join(map(json.dumps, (ended, runs, waits)))
        return "12\n" if "status=in_progress" in path else ""

    monkeypatch.setattr("kernel_matrix.ci.services.github._gh", gh)
    monkeypatch.setenv("GITHUB_REPOSITORY", "owner/name")
    history, matrix = doubles.root / "history", ("--matrix", str(doubles.root / "matrix.yaml"))
    assert main(["ci", "history", str(history), *matrix]) == 0
    assert not [path for path in asked if "actions/runs" in path]
    assert preference.read(history) is None
    doubles.edit("targets: [any]", "targets: [any]\n    machines: { any: [big, small] }")
    assert main(["ci", "history", str(history), *matrix]) == 0
    assert preference.read(history) == (Busy(labels=("linux", "big"), machine="one"), Busy(labels=("small",)))
