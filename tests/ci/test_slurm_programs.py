"""The answers of Slurm's programs, by stand-ins: numbers of jobs, accounts, copies of the checkout, their results."""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
import tracemalloc
from datetime import datetime
from pathlib import Path
from threading import Event

import pytest
from slurm_plans import BANNER, LATER, RAN, plan_in, programs

from kernel_matrix import pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.ci.cluster import make_run
from kernel_matrix.ci.engines import AwayError, engine_named, state
from kernel_matrix.ci.engines.slurm import copied, engine, script
from kernel_matrix.ci.engines.slurm.engine import Slurm, ask
from kernel_matrix.ci.engines.state import ClusterRun
from kernel_matrix.ci.event_plan import EventPlan
from kernel_matrix.machines.job_status import JobStatus


@pytest.fixture
def planned(tmp_path):
    return plan_in(tmp_path)


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


# It has what it was asked for in the queue, if it came, and says nothing of it.
_NO_ANSWER = """#!/bin/bash
echo "$*" >>{0}/asked
name=$(grep -o 'job-name=[^ ]*' <<<"$*")
[ {comes} = 0 ] || echo "${{name#*=}}|$(wc -l <{0}/asked)" >>{0}/queue
echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2
exit 1
"""
_LOOKED_AT = """#!/bin/bash
echo x >>{0}/looks
[ $(wc -l <{0}/looks) -le {unseen} ] || [ ! -e {0}/queue ] || cat {0}/queue
"""


@pytest.mark.parametrize(("comes", "unseen"), [(1, 0), (1, 3), (0, 0)], ids=["at once", "later", "never"])
def test_a_job_whose_submission_had_no_answer_is_found_by_its_name_and_never_sent_twice(
    planned, tmp_path, monkeypatch, comes, unseen
):
    run = make_run("slurm", *planned)
    programs(tmp_path, monkeypatch, "exit 1")
    for name, text in {"sbatch": _NO_ANSWER, "squeue": _LOOKED_AT, "scancel": "#!/bin/sh\n"}.items():
        (tmp_path / name).write_text(text.format(tmp_path, comes=comes, unseen=unseen) if name[1] != "c" else text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(engine, "_LATE", 0.5)
    monkeypatch.setattr(engine, "_PAUSE", 0.01)
    if comes:
        Slurm().submit(run)
    else:
        with pytest.raises(AwayError, match="timed out"):
            Slurm().submit(run)
    asked = (tmp_path / "asked").read_text().splitlines()
    names = [re.search(r"--job-name=(\S+)", line)[1] for line in asked]
    assert names == [script.job_name(run, part) for part in (0, 1, 2, "report")][: 4 if comes else 1]
    assert not comes or "--dependency=afterany:1:2:3 " in asked[-1]
    assert state.is_interrupted(run) is not comes, "what may come later is no run to go on with"


def test_a_script_that_is_submitted_twice_by_hand_submits_once(planned, tmp_path, monkeypatch):
    run = make_run("slurm", *planned)
    programs(tmp_path, monkeypatch, "exit 1")
    (tmp_path / "sbatch").write_text(f"#!/bin/sh\necho x >>{tmp_path}/asked; echo 12\n")
    (tmp_path / "sbatch").chmod(0o755)
    (tmp_path / "squeue").write_text(f"#!/bin/sh\n[ ! -e {tmp_path}/asked ] || echo km-{run.id}-0\n")
    call = {"input": Slurm().script(run), "text": True, "capture_output": True, "check": False}
    first, second = (subprocess.run(["bash"], **call) for _ in range(2))
    assert (first.returncode, second.returncode) == (0, 2), first.stderr
    assert f"jobs of km-{run.id} wait or run" in second.stdout
    assert len((tmp_path / "asked").read_text().split()) == 4


_PRINTS = "cat {back}; echo; read -r word; echo $word >{told}"
_BROKEN = "what it left did not come back; is /scratch of its node full?"
_LENGTH = "echo left $(stat -c %s {back})"


@pytest.mark.parametrize(
    ("step", "answer"),
    [
        (f"{_LENGTH}; {_PRINTS}", ""),
        (f"echo 'left to the site: a word'; {_LENGTH}; {_PRINTS}", ""),
        (f"echo left 99999999; head -c 9999 {{back}}; exec 1>&-; {_PRINTS}", _BROKEN),
        (f"echo left 0; {_PRINTS}", _BROKEN),
        ("echo srun: no such job >&2; exit 1", None),
    ],
    ids=["whole", "behind a site's words", "cut short", "empty", "nothing came"],
)
def test_what_comes_back_is_whole_or_said_and_a_little_of_it_is_in_memory(planned, tmp_path, step, answer):
    back, told = tmp_path / "back", tmp_path / "told"
    run = make_run("slurm", *planned).model_copy(update={"disk": "/scratch", "root": str(planned[0].root)})
    Path(run.folder).mkdir(parents=True)
    result = planned[0].results / "some"
    with tarfile.open(back, "w") as archive:
        for name in (str(result.relative_to(run.root)), "elsewhere"):
            member = tarfile.TarInfo(name)
            member.size = 24 << 20
            with Path("/dev/zero").open("rb") as zeros:
                archive.addfile(member, zeros)
    tracemalloc.start()
    try:
        said = copied._take(run, ["bash", "-c", step.format(back=back, told=told)])
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert said == answer
    assert (result.exists() and result.stat().st_size == 24 << 20) is (answer == "")
    assert not Path(run.root, "elsewhere").exists()
    assert answer is None or told.read_text() == "taken\n"
    assert most < 8 << 20


def test_what_comes_back_to_a_full_disk_is_said_and_taken_once(planned, monkeypatch, tmp_path):
    run = make_run("slurm", *planned).model_copy(update={"disk": "/scratch"})
    monkeypatch.setattr(copied, "TemporaryFile", lambda **_: os.fdopen(os.open("/dev/full", os.O_RDWR), "r+b", 0))
    step = f"echo left 3000000; head -c 3000001 /dev/zero; read -r word; echo $word >{tmp_path}/told"
    assert "No space left on device" in copied._take(run, ["bash", "-c", step])
    assert (tmp_path / "told").read_text() == "taken\n"


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


def forgotten(planned: tuple[pipeline.Project, EventPlan]) -> ClusterRun:
    """Return a run of twelve rows in one array."""
    project, plan = planned
    run = make_run("slurm", project, plan)
    rows = tuple(f"row{number}" for number in range(12))
    return run.model_copy(update={"batches": (run.batches[0].model_copy(update={"rows": rows}),)})


def test_what_squeue_has_forgotten_is_known_where_there_is_accounting(planned, tmp_path, monkeypatch):
    run = forgotten(planned)
    lines = f"{BANNER}cat <<'END'\n{SACCT.strip().format(id=run.id)}\nEND"
    programs(tmp_path, monkeypatch, f"echo $* >{tmp_path}/asked\n{lines}")
    found = {status.row: status for status in engine_named("slurm").poll(run)}
    assert {row: (one.status, one.conclusion) for row, one in found.items()} == {
        **{f"row{number}": end for number, end in enumerate(ENDS)},
        "report": ("completed", "success"),
    }
    assert (found["row2"].machine, found["row2"].ended) == ("a2", "1970-01-01T00:03:40Z")
    assert (found["row8"].why, found["row6"].machine) == ("Priority", "")
    asked = dict(re.findall(r"--(\w+)=(\S+)", (tmp_path / "asked").read_text()))
    assert datetime.fromisoformat(asked["starttime"]).timestamp() < run.created - 3600, "its clock may be another one"
    assert asked["endtime"] == "now+90minutes"


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


@pytest.mark.parametrize("waits", [True, False], ids=["waits", "began elsewhere"])
@pytest.mark.parametrize(
    ("sbcast", "why"),
    [
        (
            "#!/bin/sh\necho 'sbcast: error: No space left on device' >&2; exit 1",
            "no copy came: sbcast: error: No space",
        ),
        ("", "sbcast: No such file or directory"),
        ("not a program", "sbcast: Exec format error"),
    ],
    ids=["fails", "is absent", "does not start"],
)
def test_why_no_copy_came_to_a_node_is_said_and_ends_its_row(planned, tmp_path, monkeypatch, waits, sbcast, why):
    engine, run = Slurm(), make_run("slurm", *planned).model_copy(update={"disk": "/scratch"})
    [row], name = run.batches[0].rows, script.job_name(run, 0)
    script.logs(run).mkdir(parents=True)
    programs(tmp_path, monkeypatch, "exit 1")
    for program, text in {
        "sbcast": sbcast,
        "scancel": f"#!/bin/sh\necho $* >{tmp_path}/gone\n",
        "squeue": f'#!/bin/sh\ncase "$*" in *%F*) echo "{name}|12";; *) echo "{name}|0|12";; esac\n',
    }.items():
        (tmp_path / program).write_text(text)
        (tmp_path / program).chmod(0o755)
        if not text:
            (tmp_path / program).unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(copied, "_TRIES", 1)
    serve, is_seen = copied._serve, Event()  # what fails at once would be told by the first look
    monkeypatch.setattr(copied, "_serve", lambda *words: serve(*words) if is_seen.wait(60) else "")
    engine.attend(run, [JobStatus(row=row, status="running", **RAN)])
    is_seen.set()
    engine._couriers.wait()
    engine.attend(run, [JobStatus(row=row, status="running", **(RAN if waits else LATER))])
    assert script.log_of(run, row).read_text().startswith(f"{row}: {why}")
    assert (tmp_path / "gone").exists() is waits
