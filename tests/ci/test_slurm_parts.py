"""The engine Slurm without a cluster: what rows ask for, what nodes have, what states mean, what scripts say."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from common import harness
from slurm_plans import CUDA, plan_in
from suites import MATRIX, Suite

from kernel_matrix import pipeline
from kernel_matrix.ci.cluster import keep, make_run
from kernel_matrix.ci.engines import engine_named, state
from kernel_matrix.ci.engines.batches import asked_minutes, batches
from kernel_matrix.ci.engines.slurm import copied, nodes, script
from kernel_matrix.ci.engines.slurm.engine import never_starts, status_of
from kernel_matrix.ci.engines.state import Batch
from kernel_matrix.ci.event_plan import Known
from kernel_matrix.config.model import Ask
from kernel_matrix.serve.jobs import LiveJobs
from kernel_matrix.vendors.machine import detect

# Three partitions: the default one has a node that is down, and one whose devices have no type.
SINFO = """
a1|gpu*|up|idle|64|512000|gpu:h100:8(S:0-1),shard:32|avx512,ib|1-00:00:00
a2|gpu*|up|down*|64|512000|gpu:h100:8|avx512|1-00:00:00
b1|gpu*|up|mix|32|256000|gpu:4,nvme:no_consume:1|avx2|1-00:00:00
a2|dead|up|down*|64|512000|gpu:h100:8|avx512|infinite
c1|short|up|idle~|8|16000|(null)|(null)|10:00
d1|shut|down|idle|8|16000|(null)|(null)|10:00
"""


def fitted(ask: Ask, minutes: int = 5) -> nodes.Fitted:
    batch = Batch(rows=("row",), target="sm_90", ask=ask, minutes=minutes)
    return nodes.fit([batch], nodes.parse(SINFO), 2)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (
            Ask(gres="gpu:h200"),
            "has 1 of gpu:h200. There are: gpu (1 node), gpu:h100 (2 nodes), nvme (1 node), shard (1 node)",
        ),
        (Ask(gres="gpu:h100:9"), "has 9 of gpu:h100"),
        (Ask(gres="gpu:h100", partition="short"), "They have no devices at all"),
        (Ask(partition="shrot"), "no partition 'shrot'. Did you mean 'short'?"),
        (Ask(constraint="avx5122"), "has the feature 'avx5122'. Did you mean 'avx512'?"),
        (Ask(constraint="avx512&avx2"), "no one node has all of 'avx512&avx2'"),
        (Ask(constraint="avx512|amx"), "has the feature 'amx'"),
        (Ask(cpus=65), "the largest such node has 64 cores"),
        (Ask(partition="short", memory="16G"), "has 8 cores and 15.6 GiB"),
    ],
)
def test_what_no_node_has_is_said_with_what_there_is(ask, words):
    [sentence] = fitted(ask).lacking
    assert sentence.startswith("ci.slurm.targets.sm_90: ")
    assert words in sentence


@pytest.mark.parametrize(
    "ask",
    [
        Ask(gres="gpu:h100"),
        Ask(gres="gpu"),
        Ask(gres="gpu:4"),
        Ask(gres="gres:gpu:h100:8"),
        Ask(constraint="avx512|avx2"),
        Ask(constraint="[avx512*2&avx2]"),
        Ask(partition="short,gpu", memory="100G"),
    ],
)
def test_what_a_node_has_is_taken(ask):
    assert (fitted(ask).lacking, len(fitted(ask).batches)) == ((), 1)


def test_a_row_asks_for_no_more_time_than_its_partition_gives():
    found = fitted(Ask(partition="short"), minutes=80)
    assert found.batches[0].minutes == 10
    assert "allow 80 minutes, and the partition 10" in found.changed[0]
    assert fitted(Ask(partition="dead"), minutes=9999).batches[0].minutes == 9999


@pytest.mark.parametrize(("partition", "node"), [("dead", "a2"), ("shut", "d1")])
def test_nodes_that_are_all_down_are_named_also_where_it_is_their_partition(partition, node):
    assert f"every node for it is down or drained ({node})" in fitted(Ask(partition=partition)).changed[0]


@pytest.mark.parametrize(
    ("state", "status", "conclusion"),
    [
        ("PENDING", "queued", ""),
        ("REQUEUED", "queued", ""),
        ("RUNNING", "running", ""),
        ("COMPLETING", "running", ""),
        ("COMPLETED", "completed", "success"),
        ("FAILED", "completed", "failure"),
        ("CANCELLED by 1000", "completed", "cancelled"),
        ("CANCELLED+", "completed", "cancelled"),
        ("TIMEOUT", "completed", "timed_out"),
        ("NODE_FAIL", "completed", "node_fail"),
        ("OUT_OF_MEMORY", "completed", "out_of_memory"),
        ("PREEMPTED", "completed", "preempted"),
        ("DEADLINE", "completed", "never_started"),
    ],
)
def test_each_state_of_slurm_is_one_status(state, status, conclusion):
    times = {"submitted": "100", "start": "160", "end": "N/A"}
    found = status_of("row", state, **times, nodes="a1", reason="Resources")
    assert (found.status, found.conclusion) == (status, conclusion)
    assert found.why == ("Resources" if status == "queued" else "")
    assert found.created == "1970-01-01T00:01:40Z"
    assert bool(found.started) is (status != "queued" and state != "COMPLETING"), "it may be the start that comes next"


@pytest.mark.parametrize(
    ("reason", "ever"),
    [
        *((reason, True) for reason in ("BadConstraints", "PartitionTimeLimit", "QOSMaxGRESPerJob", "InvalidAccount")),
        *((reason, True) for reason in ("AssocMaxWallDurationPerJobLimit", "launch failed requeued held")),
        *(
            (reason, True)
            for reason in ("QOSMaxMemoryPerNode", "AssocMaxCpuPerNode", "QOSMinGRES", "JobHoldMaxRequeue")
        ),
        ("Job's account not permitted to use this partition (gpu allows lab not root)", True),
        ("Job's QOS not permitted to use this partition (gpu denies short including short)", True),
        ("RequiresReservation", True),
        *((reason, False) for reason in ("Priority", "Resources", "ReqNodeNotAvail, UnavailableNodes:a1", "BeginTime")),
        *((reason, False) for reason in ("QOSMaxJobsPerUserLimit", "AssocGrpCPULimit", "Dependency", "None", "")),
        *((reason, False) for reason in ("QOSMaxSubmitJobPerUserLimit", "QOSMaxCpuPerUserLimit", "BurstBufferStageIn")),
        *((reason, False) for reason in ("AssocMaxJobsLimit", "AssocGrpSubmitJobsLimit", "JobHeldUser")),
    ],
)
def test_only_reasons_that_no_time_mends_end_a_row(reason, ever):
    assert never_starts(reason) is ever


TARGET = detect().of("cpu")[0].targets[0]


@pytest.fixture
def planned(tmp_path):
    return plan_in(tmp_path)


def test_each_target_with_a_node_has_a_row_that_asks_for_its_device(planned):
    project, plan = planned
    assert {row.id: (row.labels, row.own) for row in plan.rows.rows} == {
        "here.plain": (("slurm",), False),
        "cuda.plain.sm_80": (("slurm", "sm_80"), True),
        "cuda.plain.sm_90": (("slurm", "sm_90"), True),
        "cuda.plain.no-machine": ((), False),
    }
    run = make_run("slurm", project, plan)
    asked = {batch.target: list(script.options(run, batch)) for batch in run.batches}
    assert asked[""][0] == "--account=kernels", "a row without a GPU asks for no device"
    assert {"--gres=gpu:h100:1", "--account=kernels", "--time=30", "--exclusive"} <= {*asked["sm_90"]}
    assert {"--gres=gpu:a100:2", "--account=other"} <= {*asked["sm_80"]}


def test_a_row_that_was_measured_asks_for_minutes_and_not_for_hours(planned):
    project, plan = planned
    row = plan.rows.row("here.plain")
    matrix = pipeline.without_tests(project).matrix
    assert asked_minutes(matrix, row, Known()) is None
    seconds = {"here/any/plain/test_a.tests/test_one": 5.0, "here/any/plain/test_a.tests/test_two": 7.0}
    assert asked_minutes(matrix, row, Known(seconds, setup={"here": 30.0})) == 7  # five, and 4 × 12 + 2 × 30 seconds
    [batch] = [batch for batch in batches(matrix, plan.rows, Known(seconds, setup={"here": 30.0})) if not batch.target]
    assert (batch.minutes, batch.measured) == (7, True)


def test_more_rows_than_one_array_takes_are_several(planned, monkeypatch):
    project, plan = planned
    monkeypatch.setattr("kernel_matrix.ci.engines.batches.MOST_ROWS", 1)
    assert [len(batch.rows) for batch in batches(project.matrix, plan.rows, Known())] == [1, 1, 1]


def test_the_scripts_are_well_formed_and_run_what_stands_before_each_row(planned):
    project, plan = planned
    text = engine_named("slurm").script(make_run("slurm", project, plan))
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    assert text.count("module load a\nmodule load b\n") == 4
    assert "--dependency=afterany$jobs" in text
    row = next(line for line in text.splitlines() if line.startswith("'cuda.plain.sm_90 "))
    subprocess.run(["bash", "-n"], input=row.partition(" ")[2].rstrip("'"), text=True, check=True)


def test_the_page_of_a_run_shows_the_jobs_that_a_cluster_has_until_its_report_has_ended(planned):
    project, plan = planned
    run = make_run("slurm", project, plan)
    keep(project, run, plan.rows)
    live = LiveJobs(project, plan.rows.jobs, [])
    looked = live.look()
    assert [job.id for job in looked.jobs] == ["cuda.plain.sm_80", "cuda.plain.sm_90", "here.plain"]
    assert (looked.began, looked.ended) == (run.created, 0)
    state.status_of_report(run).write_text("0\n")
    assert not live.look().goes_on


@pytest.mark.parametrize("ahead", [-3600, 0, 3600])
def test_the_page_of_a_cluster_s_run_asks_no_clock_which_job_has_begun(planned, ahead):
    project, plan = planned
    run = make_run("slurm", project, plan)
    keep(project, run, plan.rows)
    of_files = run.created + ahead
    os.utime(state.plan_of(project.build), (of_files, of_files))
    for job, seconds in (("cuda.plain.sm_80", -60), ("cuda.plain.sm_90", 60)):  # of an earlier run, and of this one
        journal = project.build / "jobs" / job / "journal.jsonl"
        journal.parent.mkdir(parents=True)
        journal.touch()
        os.utime(journal, (of_files + seconds, of_files + seconds))
    looked = LiveJobs(project, plan.rows.jobs, []).look()
    assert [job.has_begun for job in looked.jobs] == [False, True, False]
    assert looked.began == run.created


def test_a_row_on_a_node_s_own_disk_has_all_of_its_copy_and_nothing_of_the_checkout(planned):
    project, plan = planned
    run = make_run("slurm", project, plan).model_copy(update={"disk": "/scratch", "root": str(project.root)})
    keep(project, run, plan.rows)
    (project.root / ".gitignore").write_text("ignored\n")
    (project.root / "ignored").touch()
    git = ["git", "-C", str(project.root)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "matrix.yaml"], check=True)
    copied.pack(run)
    with tarfile.open(Path(run.folder) / "checkout.tar.gz") as archive:
        names = {*archive.getnames()}
    assert {"matrix.yaml", "tests/test_a.py", "build/cluster/plan.json"} <= names
    assert "ignored" not in names
    for number in range(len(run.batches)):
        text = script.array(run, number)
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)
        assert run.root not in text
        assert "/scratch/km-" in text


def test_no_array_is_longer_than_the_cluster_takes():
    batch = Batch(rows=tuple("abcde"), ask=Ask(), minutes=5)
    assert [part.rows for part in nodes.fit([batch], nodes.parse(SINFO), 2).batches] == [*map(tuple, ("ab", "cd", "e"))]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{ targets: { sm_91: { gres: gpu } } }", "unknown target 'sm_91'. Did you mean 'sm_90'?"),
        ("{ targets: { sm_90: {} } }", "a row of a GPU asks for it"),
        ("{ partition: 'a b' }", "ci.slurm.partition"),
        ("{ options: ['--wrap=rm; echo'] }", "ci.slurm.options[0]"),
        ("{ options: [exclusive] }", "ci.slurm.options[0]"),
        ('{ gres: "gpu\\n#SBATCH --wrap=x" }', "ci.slurm.gres"),
        ("{ minutes: 0 }", "ci.slurm.minutes"),
    ],
)
def test_a_wrong_entry_is_a_fault_of_matrix_yaml(tmp_path, entry, words):
    suite = Suite.made(tmp_path, {"tests/test_a.py": ""}, f"{MATRIX.rstrip()}{CUDA}ci: {{ slurm: {entry} }}\n")
    done = harness("check", "--matrix", str(suite.root / "matrix.yaml"))
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["matrix", "--on", "slurm"], "a copy of the present folder, and it lacks matrix.yaml"),
        (["matrix", "--on", "slurm", "--detach"], "has to follow the rows"),
        (["ci", "plan", "--on", "slurm"], "has to follow the rows"),
    ],
)
def test_a_copy_that_would_not_come_is_said_before_anything_is_submitted(tmp_path, words, said):
    suite = Suite.made(tmp_path, {"tests/test_a.py": ""}, f"{MATRIX.rstrip()}{CUDA}ci: {{ slurm: {{ disk: /tmp }} }}\n")
    done = harness(*words, "--matrix", str(suite.root / "matrix.yaml"))
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_without_slurm_it_says_what_to_install(tmp_path, monkeypatch):
    suite = Suite.made(tmp_path, {"tests/test_a.py": "def test_one(): pass\n"})
    monkeypatch.setenv("PATH", "/nowhere")
    done = harness("matrix", "--matrix", str(suite.root / "matrix.yaml"), "--on", "slurm")
    assert (done.returncode, "sinfo is not here" in done.stderr) == (2, True), done.stderr
