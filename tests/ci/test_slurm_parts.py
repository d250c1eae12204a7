"""The engine Slurm without a cluster: what rows ask for, what nodes have, what states mean, what scripts say."""

from __future__ import annotations

import re
import subprocess
import tarfile
from pathlib import Path

import pytest
from common import harness
from suites import MATRIX, Suite

from kernel_matrix import pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.ci.cluster import keep, make_run
from kernel_matrix.ci.engines import AwayError, engine_named, state
from kernel_matrix.ci.engines.batches import asked_minutes, batches
from kernel_matrix.ci.engines.slurm import copied, nodes, script
from kernel_matrix.ci.engines.slurm.engine import Slurm, ask, never_starts, status_of
from kernel_matrix.ci.engines.state import Batch, ClusterRun
from kernel_matrix.ci.event_plan import EventPlan, Known, plan_rows
from kernel_matrix.ci.follow import Follower
from kernel_matrix.config.model import Ask
from kernel_matrix.machines.job_status import JobStatus
from kernel_matrix.run.proven import KEY
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
        *((reason, False) for reason in ("Priority", "Resources", "ReqNodeNotAvail, UnavailableNodes:a1", "BeginTime")),
        *((reason, False) for reason in ("QOSMaxJobsPerUserLimit", "AssocGrpCPULimit", "Dependency", "None", "")),
    ],
)
def test_only_reasons_that_no_time_mends_end_a_row(reason, ever):
    assert never_starts(reason) is ever


TARGET = detect().of("cpu")[0].targets[0]
_SLURM = """
ci:
  slurm:
    account: kernels
    gres: "gpu:any"
    setup: |
      module load a
      module load b
    targets:
      sm_90: { gres: "gpu:h100", minutes: 30, options: [--exclusive] }
      sm_80: { gres: "gpu:a100:2", account: other }
"""
_CUDA = """
  cuda:
    title: CUDA
    device: nvidia
    runner: [self-hosted]
    targets: [sm_80, sm_90, sm_100]
    toolchains: [plain]
"""


@pytest.fixture
def planned(tmp_path) -> tuple[pipeline.Project, EventPlan]:
    suite = Suite.made(tmp_path, {"tests/test_a.py": "def test_one(): pass\n"}, MATRIX.rstrip() + _CUDA + _SLURM)
    project = pipeline.load(suite.root / "matrix.yaml")
    return project, plan_rows(project, machines=engine_named("slurm").machines(project.matrix))


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


def test_the_page_of_a_run_shows_the_jobs_that_a_cluster_has_until_its_report_has_ended(planned, monkeypatch):
    monkeypatch.setenv(KEY, "")  # the page sets it for its process
    project, plan = planned
    run = make_run("slurm", project, plan)
    keep(project, run, plan.rows)
    live = LiveJobs(project, plan.rows.jobs, [])
    looked = live.look()
    assert [job.id for job in looked.jobs] == ["cuda.plain.sm_80", "cuda.plain.sm_90", "here.plain"]
    assert (looked.began, looked.ended) == (run.created, 0)
    state.status_of_report(run).write_text("0\n")
    assert not live.look().goes_on


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


# Words that a site's own programs print beside what they were asked for.
BANNER = "echo '*** The cluster is down on Monday | ask us ***'; "


@pytest.mark.parametrize(
    ("printed", "number"),
    [("12", "12"), ("12;cluster", "12"), ("Have 3 GPU hours left\n12", "12"), ("12\nThanks for 2 jobs", "12")],
)
def test_the_number_of_a_job_is_found_among_a_site_s_own_words(planned, tmp_path, monkeypatch, printed, number):
    programs(tmp_path, monkeypatch, "exit 1")
    (tmp_path / "sbatch").write_text(f"#!/bin/sh\necho \"$*\" >>{tmp_path}/asked\nprintf '{printed}\\n'\n")
    (tmp_path / "sbatch").chmod(0o755)
    run, asked = make_run("slurm", *planned), tmp_path / "asked"
    engine_named("slurm").submit(run)
    assert re.search(rf"--dependency=afterany:({number}:)*{number} ", asked.read_text())
    asked.unlink()
    subprocess.run(["bash"], input=engine_named("slurm").script(run), text=True, check=True)
    assert re.search(rf"--dependency=afterany(:{number})+ ", asked.read_text())


def test_what_an_sbatch_that_prints_no_number_has_submitted_is_cancelled(planned, tmp_path, monkeypatch):
    run = make_run("slurm", *planned)
    programs(tmp_path, monkeypatch, "exit 1")
    lines = {"sbatch": "echo queued for approval", "squeue": f"{BANNER}echo '{script.job_name(run, 0)}|12'"}
    for name, line in {**lines, "scancel": f'echo "$*" >{tmp_path}/cancelled'}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(UserError, match="no number of a job: queued for approval"):
        engine_named("slurm").submit(run)
    assert (tmp_path / "cancelled").read_text() == "12\n"


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
    suite = Suite.made(tmp_path, {"tests/test_a.py": ""}, f"{MATRIX.rstrip()}{_CUDA}ci: {{ slurm: {entry} }}\n")
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
    suite = Suite.made(
        tmp_path, {"tests/test_a.py": ""}, f"{MATRIX.rstrip()}{_CUDA}ci: {{ slurm: {{ disk: /tmp }} }}\n"
    )
    done = harness(*words, "--matrix", str(suite.root / "matrix.yaml"))
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


# What sacct prints of the array 12 and of the report, job 13: `sacct --parsable2 --allocations`, times by %s.
SACCT = """
km-{id}-0|12_0|COMPLETED|100|160|220|a1|None
km-{id}-0|12_1|CANCELLED by 1000|100|160|220|a1|None
km-{id}-0|12_2|OUT_OF_MEMORY|100|160|220|a2|None
km-{id}-0|12_3|TIMEOUT|100|160|220|a2|None
km-{id}-0|12_4|NODE_FAIL|100|160|220|a2|None
km-{id}-0|12_5|PREEMPTED|100|160|220|a2|None
km-{id}-0|12_6|DEADLINE|100|Unknown|220|None assigned|None
km-{id}-0|12_7|RUNNING|100|160|Unknown|a1|None
km-{id}-0|12_[8-9,11%4]|PENDING|100|Unknown|Unknown|None assigned|Priority
km-{id}-report|13|COMPLETED|100|160|220|a1|None
"""
ENDS = [
    *(("completed", end) for end in ("success", "cancelled", "out_of_memory", "timed_out", "node_fail", "preempted")),
    *(("completed", "never_started"), ("running", ""), ("queued", ""), ("queued", ""), ("absent", ""), ("queued", "")),
]


def programs(folder: Path, monkeypatch: pytest.MonkeyPatch, sacct: str) -> None:
    """Put a squeue that has forgotten all jobs, and a sacct, before all others."""
    for name, lines in (("squeue", BANNER), ("sacct", sacct)):
        (folder / name).write_text(f"#!/bin/sh\n{lines}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def forgotten(planned: tuple[pipeline.Project, EventPlan]) -> ClusterRun:
    """Return a run of twelve rows in one array."""
    project, plan = planned
    run = make_run("slurm", project, plan)
    rows = tuple(f"row{number}" for number in range(12))
    return run.model_copy(update={"batches": (run.batches[0].model_copy(update={"rows": rows}),)})


def test_what_squeue_has_forgotten_is_known_where_there_is_accounting(planned, tmp_path, monkeypatch):
    run = forgotten(planned)
    programs(tmp_path, monkeypatch, f"{BANNER}cat <<'END'\n{SACCT.strip().format(id=run.id)}\nEND")
    found = {status.row: status for status in engine_named("slurm").poll(run)}
    assert {row: (one.status, one.conclusion) for row, one in found.items()} == {
        **{f"row{number}": end for number, end in enumerate(ENDS)},
        "report": ("completed", "success"),
    }
    assert (found["row2"].machine, found["row2"].ended) == ("a2", "1970-01-01T00:03:40Z")
    assert (found["row8"].why, found["row6"].machine) == ("Priority", "")


def test_a_cluster_without_accounting_forgets_and_one_whose_accounts_are_away_is_asked_again(
    planned, tmp_path, monkeypatch
):
    run = forgotten(planned)
    programs(tmp_path, monkeypatch, "echo 'Slurm accounting storage is disabled' >&2; exit 1")
    assert {status.status for status in engine_named("slurm").poll(run)} == {"absent"}
    away = "sacct: error: Problem talking to the database: Connection refused"
    programs(tmp_path, monkeypatch, f"echo '{away}' >&2; exit 1")
    with pytest.raises(AwayError, match="talking to the database"):
        engine_named("slurm").poll(run)


def test_a_row_that_somebody_cancels_while_it_waits_was_cancelled(planned, tmp_path, monkeypatch):
    run = forgotten(planned)
    script.logs(run).mkdir(parents=True)
    script.log_of(run, "row2").touch()  # it ended too long ago
    lines = "\n".join(f"km-{run.id}-0|{task}|COMPLETED|100|160|220|a1|None" for task in range(12) if task not in (1, 2))
    programs(tmp_path, monkeypatch, "exit 1")
    (tmp_path / "squeue").write_text(f"#!/bin/sh\ncat <<'END'\n{lines}\nEND\n")
    found = {status.row: (status.status, status.conclusion) for status in engine_named("slurm").poll(run)}
    assert found["row1"] == ("completed", "cancelled")
    assert (found["row2"], found["report"]) == (("absent", ""), ("absent", ""))


def test_what_programs_print_need_not_be_utf_8(tmp_path, monkeypatch):
    (tmp_path / "sinfo").write_bytes(b"#!/bin/sh\nprintf 'a1|d\\351faut\\n'\n")
    (tmp_path / "sinfo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert ask("sinfo").startswith("a1|d")


_RAN = {"created": "1970-01-01T00:01:40Z", "started": "1970-01-01T00:02:40Z", "machine": "a1"}
_LATER = {**_RAN, "started": "1970-01-01T00:04:00Z", "machine": "a2"}
_CLEARED = {**_RAN, "started": ""}  # Slurm clears up after it


@pytest.mark.parametrize("waits", [True, False], ids=["waits", "began elsewhere"])
def test_why_no_copy_came_to_a_node_is_said_and_ends_its_row(planned, tmp_path, monkeypatch, waits):
    engine, run = Slurm(), make_run("slurm", *planned).model_copy(update={"disk": "/scratch"})
    [row], name = run.batches[0].rows, script.job_name(run, 0)
    script.logs(run).mkdir(parents=True)
    programs(tmp_path, monkeypatch, "exit 1")
    lines = {
        "sbcast": "echo 'sbcast: error: No space left on device' >&2; exit 1",
        "scancel": f"echo $* >{tmp_path}/gone",
    }
    for program, line in {
        **lines,
        "squeue": f'case "$*" in *%F*) echo "{name}|12";; *) echo "{name}|0|12";; esac',
    }.items():
        (tmp_path / program).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setattr(copied, "_TRIES", 1)
    engine.attend(run, [JobStatus(row=row, status="running", **_RAN)])
    engine._couriers.wait()
    engine.attend(run, [JobStatus(row=row, status="running", **(_RAN if waits else _LATER))])
    assert script.log_of(run, row).read_text() == f"{row}: no copy came: sbcast: error: No space left on device\n"
    assert (tmp_path / "gone").exists() is waits


class Played:
    """An engine whose looks are given: the status and reason of the report, and of the one row."""

    def __init__(self, *looks: tuple[dict[str, str], dict[str, str]]) -> None:
        self.looks, self.cancelled = [*looks], []

    def poll(self, run):
        report, row = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return [JobStatus(row="report", **report), JobStatus(row="here.plain", **row)]

    def attend(self, run, statuses): ...

    def cancel(self, run, rows=None):
        self.cancelled += rows

    def never_starts(self, why):
        return never_starts(why)

    def log(self, run, row):
        return script.log_of(run, row)


ENDED, RUNS = {"status": "completed", "conclusion": "success"}, {"status": "running", **_RAN}
CANCELLED = {"status": "completed", "conclusion": "cancelled"}


@pytest.mark.parametrize(
    ("looks", "status", "cancelled"),
    [
        # Somebody cancels the report alone: the rows go on, and it is made here.
        ([(CANCELLED, RUNS), (CANCELLED, RUNS), (CANCELLED, ENDED)], 7, []),
        ([(CANCELLED, CANCELLED)], 130, []),
        # All nodes of its partition are drained, or it is too long for it.
        ([({"status": "queued", "why": "PartitionTimeLimit"}, ENDED)], 7, ["report"]),
        ([({"status": "queued", "why": "Nodes required for job are DOWN, DRAINED"}, ENDED)], 7, ["report"]),
    ],
)
def test_a_report_that_nobody_makes_is_made_here_when_the_rows_have_ended(
    planned, monkeypatch, looks, status, cancelled
):
    project, plan = planned
    run = make_run("slurm", project, plan).model_copy(update={"report_commands": ("exit 7",), "queue_minutes": 0.001})
    engine = Played(*looks)
    monkeypatch.setattr("kernel_matrix.ci.follow._FIRST", 0.05)
    assert Follower(engine, project, run, print).follow() == status
    assert (engine.cancelled, len(engine.looks)) == (cancelled, 1), "rows that run are followed to their end"


def test_without_slurm_it_says_what_to_install(tmp_path, monkeypatch):
    suite = Suite.made(tmp_path, {"tests/test_a.py": "def test_one(): pass\n"})
    monkeypatch.setenv("PATH", "/nowhere")
    done = harness("matrix", "--matrix", str(suite.root / "matrix.yaml"), "--on", "slurm")
    assert (done.returncode, "sinfo is not here" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("now", "lost"),
    [
        ({"status": "running", **_CLEARED}, ""),
        ({"status": "running", **_RAN}, ""),
        ({"status": "queued", "why": "BeginTime"}, "lost a1, and waits again (BeginTime)"),
        ({"status": "queued"}, "lost a1, and waits again (requeued)"),
        ({"status": "running", **_LATER}, "lost a1, and began again"),
        ({"status": "completed", "conclusion": "success", **_LATER}, "lost a1, and began again"),
        ({"status": "completed", "conclusion": "success", **_RAN}, ""),
        ({"status": "completed", "conclusion": "cancelled"}, ""),
        ({"status": "absent"}, ""),
    ],
)
@pytest.mark.parametrize("cleared", [[], [{"status": "running", **_CLEARED}]])
def test_a_row_that_lost_its_node_says_so_once_also_where_no_look_saw_it_wait(planned, now, lost, cleared):
    project, plan = planned
    said: list[str] = []
    run = make_run("slurm", project, plan)
    follower = Follower(engine_named("slurm"), project, run, said.append)
    for facts in ({"status": "running", **_RAN}, *cleared, now):
        follower._show([JobStatus(row="here.plain", **facts)])
    assert [line.partition(": ")[2] for line in said if "lost a1" in line] == [lost] * bool(lost)
    assert sum("runs on" in line for line in said) == 1 + (lost != "" and now["status"] == "running")
