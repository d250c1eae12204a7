"""Rows as jobs of Slurm: what a maintainer sees of those that pass, fail, are ended, wait in vain or lose their node."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from clusters import Cluster, cluster, demand_slurm
from common import BYTECODE, ROOT, records_in
from suites import Suite

from kernel_matrix.run.proven import mark_file

# Each toolchain is a lane whose tests do something else, on a target whose rows ask for something else.
LANES = {
    "ok": "x86-64",
    "red": "x86-64",
    "ended": "x86-64",
    "greedy": "x86-64",
    "late": "x86-64-v2",
    "lost": "x86-64-v3",
}
TESTS = """
import os, pathlib, time
import pytest

LANE = os.environ["LANE"]
NOTES = pathlib.Path(os.environ["NOTES"])


def test_first():
    with (NOTES / f"{LANE}.first").open("a") as file:
        file.write("x")


def test_second():
    assert LANE != "red"
    with (NOTES / f"{LANE}.second").open("a") as file:
        file.write("x")
    if LANE == "greedy":
        eaten = bytearray(os.urandom(1 << 20) * 700)
    if LANE in ("ended", "late", "greedy") or (LANE == "lost" and (NOTES / "lost.second").stat().st_size < 3):
        time.sleep(600)


def test_third():
    pass
"""
_TOOLCHAIN = "{{ toolchain: {lane}, targets: [{target}], environment: {{ LANE: {lane}, NOTES: {notes} }} }}"
_MATRIX = """
package: {{ name: thing, suite: tests }}
limits: {{ case: 700, job: 1000 }}
toolchains: {{ {toolchains} }}
platforms:
  here: {{ title: CPU, device: cpu, runner: [ubuntu-24.04], targets: [{targets}], toolchains: [{entries}] }}
  cuda: {{ title: CUDA, device: nvidia, runner: [self-hosted], targets: [sm_90, sm_100], toolchains: [ok] }}
ci:
  slurm:
    memory: 500M
    queue_minutes: 0.4
    setup: export OF_SETUP=1
    targets:
      x86-64: {{}}
      x86-64-v2: {{ minutes: 1 }}
      x86-64-v3: {{ constraint: gfx942, gres: gpu }}
      sm_90: {{ gres: gpu:sm_90 }}
      sm_100: {{ gres: gpu:sm_100 }}
"""


# What a person has in a profile for their own jobs.
HABITS = {
    "SBATCH_ARRAY_INX": "7",
    "SBATCH_TIMELIMIT": "3",
    "SBATCH_EXPORT": "NONE",
    "SBATCH_WAIT": "1",
    "SBATCH_JOB_NAME": "my job",
    "SBATCH_PARTITION": "none",
    "SINFO_PARTITION": "short",
    "SQUEUE_PARTITION": "short",
    "SQUEUE_STATES": "PD",
}


def matrix_of(notes: Path) -> str:
    """Return a matrix with a lane for each end of a row."""
    return _MATRIX.format(
        toolchains=", ".join(f"{lane}: {{ lock: lock.txt }}" for lane in LANES),
        targets=", ".join(dict.fromkeys(LANES.values())),
        entries=", ".join(_TOOLCHAIN.format(lane=lane, target=of, notes=notes) for lane, of in LANES.items()),
    )


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start the cluster once for all tests of this file."""
    demand_slurm()
    with cluster(tmp_path_factory.mktemp("slurm"), tmp_path_factory.mktemp("login")) as made:
        yield made


@dataclass
class Package:
    """A package of somebody in a folder that all nodes see, and the cluster that its rows run on."""

    suite: Suite
    notes: Path
    slurm: Cluster
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command in the package's folder; both of its outputs are one."""
        process = subprocess.Popen(
            [sys.executable, "-m", "kernel_matrix", *words],
            cwd=self.suite.root,
            env={**self.slurm.variables, **HABITS, "PYTHONPATH": str(ROOT / "src")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(process)
        return process

    def call(self, *words: str) -> tuple[int, str]:
        """Return the exit status of a command, and what it has printed."""
        process = self.start(*words)
        said, _ = process.communicate(timeout=300)
        return process.returncode, said

    @property
    def results(self) -> Path:
        """The folder of results."""
        return self.suite.root / "build" / "results"

    def states(self) -> dict[str, str]:
        """Return the state of each lane's cell in the report."""
        document = json.loads((self.suite.root / "build" / "site" / "compat.json").read_text())
        return {f"{cell['target']}/{cell['toolchain']}": cell["state"] for cell in document["cells"]}

    def wait_for(self, *notes: str) -> None:
        """Wait until the tests of some lanes have come so far."""
        until(lambda: all((self.notes / note).exists() for note in notes), f"notes: {notes}")

    def end(self) -> None:
        """End all jobs, and what was started."""
        self.slurm.ask("scancel", "--user=root")
        for process in self.started:
            process.kill()
            process.communicate()

    def jobs(self) -> dict[str, str]:
        """Return the id of each row's job that waits or runs."""
        run = json.loads((self.suite.root / "build" / "cluster" / "run.json").read_text())
        listed = self.slurm.ask("squeue", "-h", "-r", "-o", "%j|%K|%i").splitlines()
        found = {tuple(line.split("|")[:2]): line.split("|")[2] for line in listed}
        rows = [(row, (f"km-{run['id']}-{number}", str(task)))
                for number, batch in enumerate(run["batches"]) for task, row in enumerate(batch["rows"])]  # fmt: skip
        return {row: found[key] for row, key in rows if key in found}

    def begin_again(self, job: str, *changes: str) -> None:
        """Let a job begin that was requeued, for which Slurm itself waits for two minutes."""
        until(lambda: "BeginTime" in self.slurm.ask("squeue", "-h", "-j", job, "-o", "%r"), "it is requeued")
        self.slurm.ask("scontrol", "update", f"JobId={job}", "StartTime=now", *changes)


def until(holds: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.1)


@pytest.fixture
def package(tmp_path: Path, slurm: Cluster) -> Iterator[Package]:
    """Make the package; none of its jobs is left in the cluster."""
    notes = tmp_path / "notes"
    notes.mkdir()
    suite = Suite.made(tmp_path / "thing", {"tests/test_a.py": TESTS}, matrix_of(notes))
    made = Package(suite, notes, slurm)
    yield made
    made.end()


ON = ("matrix", "--on", "slurm", "--executor", "current")


ONE = ("--toolchain", "ended")


def test_a_second_call_goes_on_with_the_jobs_and_ctrl_c_cancels_them(package):
    status, said = package.call(*ON, *ONE, "--detach")
    assert (status, "matrix --attach" in said) == (0, True), said
    [job] = package.jobs().values()
    assert package.call(*ON, "--toolchain", "ok")[0] == 2, "jobs of another plan run"
    package.wait_for("ended.second")
    second = package.start(*ON, *ONE)
    read_until(second, "going on with them")
    assert list(package.jobs().values()) == [job], "nothing was submitted twice"
    package.slurm.end("slurmctld", signal.SIGTERM)  # the controller restarts
    read_until(second, "does not answer")
    package.slurm.start_controller()
    read_until(second, "answers again")
    second.send_signal(signal.SIGINT)
    said, _ = second.communicate(timeout=60)
    assert (second.returncode, "cancelled all jobs" in said) == (130, True), said
    until(lambda: not package.slurm.ask("squeue", "-h").strip(), "no job is left")
    ends = {record.case.rpartition("/")[2]: (record.outcome, record.stage) for record in records_in(package.results)}
    assert ends == {"test_first": ("pass", ""), "test_second": ("error", "machine"), "test_third": ("missing", "")}


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Return what a process prints, up to a line with this text."""
    said = ""
    assert process.stdout
    while text not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    return said


# A controller looks at time limits each 30 seconds since it has begun: the test before has just restarted it, and when
# it looks, all rows run.
@pytest.mark.slow
def test_each_row_ends_as_a_maintainer_would_call_it(package):
    run = package.start(*ON)
    package.wait_for("lost.second")
    lost = package.jobs()["here.lost.x86-64-v3"]
    assert package.slurm.ask("squeue", "-h", "-j", lost, "-o", "%N").strip() == "km-b"
    # A job of another partition takes its device, in the middle of a test; then it begins again.
    words = ("--partition=urgent", "--gres=gpu:gfx942:1", "--output=/dev/null", "--chdir=/")
    package.slurm.ask("sbatch", *words, "--wrap=true")
    package.wait_for("ended.second")
    package.slurm.ask("scancel", package.jobs()["here.ended.x86-64"])  # somebody else does
    package.begin_again(lost)
    until(lambda: (package.notes / "lost.second").read_text() == "xx", "it goes on")
    journal = package.suite.root / "build" / "jobs" / "here.lost.x86-64-v3" / "journal.jsonl"
    mark = mark_file(package.suite.root / "build", "here.lost.x86-64-v3")
    until(lambda: int(mark.read_text().split()[0]) == journal.stat().st_size, "the harness has seen what ended")
    package.slurm.fail("km-b")  # in the middle of a test, and another node takes it
    package.slurm.tell_down("km-b")
    mark.unlink()  # it would lie on the node that failed alone
    package.begin_again(lost, "Features=sm_90")
    said, _ = run.communicate(timeout=240)
    states = package.states()
    assert states == {
        "x86-64/ok": "held",
        "x86-64/red": "fail",
        "x86-64/ended": "error",  # of the stage machine: what had ended is there
        # Its minute is over in its second test; on a machine that is slow, before any.
        "x86-64-v2/late": "error" if (package.notes / "late.second").exists() else "missing",
        "x86-64-v3/lost": "held",
        "x86-64/greedy": "missing",  # Slurm ended it at its memory limit, and no kernel is red for that
        "sm_90/ok": "missing",  # its node has no such GPU
        "sm_100/ok": "unavailable",  # its node is down
    }, said
    assert run.returncode == 1, said
    assert said.count("here.lost.x86-64-v3: lost km-b, and ") == 2, said
    assert (package.notes / "lost.first").read_text() == "x", (
        "what the row had finished before it lost its node is kept"
    )
    package.slurm.start_node("km-b")
    package.slurm.wait_for(2)


def test_what_the_cluster_lacks_is_said_and_nothing_is_submitted(package):
    file = package.suite.root / "matrix.yaml"
    file.write_text(
        file.read_text().replace("gres: gpu:sm_90", "gres: gpu:h200").replace("minutes: 1", "partition: shrot")
    )
    status, said = package.call(*ON)
    assert (status, "Nothing was submitted" in said) == (2, True), said
    assert "targets.sm_90: no node of its partition has 1 of gpu:h200. There are: gpu:gfx942 (1 node)" in said
    assert "the cluster has no partition 'shrot'. Did you mean 'short'?" in said
    assert not package.slurm.ask("squeue", "-h").strip()


SMALL = """
package: {{ name: thing, suite: tests }}
limits: {{ case: 700, job: 1000 }}
toolchains: {{ good: {{ lock: lock.txt }}, red: {{ lock: lock.txt }}, ended: {{ lock: lock.txt }} }}
platforms:
  here: {{ title: CPU, device: cpu, runner: [x], targets: [x86-64], toolchains: [{entries}] }}
ci:
  slurm:
    disk: {disk}
    cpus: 5
    image: "{image}"
    setup: |
      mkdir -p build/cache; ln -s {bytecode} build/cache/bytecode
      export PATH={programs}:$PATH
"""
_OWN = """

def test_place():
    assert pathlib.Path.cwd().is_relative_to({disk!r})
    assert not pathlib.Path({login!r}).exists()
"""
# It runs what stands behind the image where it is told to, with nothing of the node's own Python.
_APPTAINER = """#!/bin/bash
[ "$1 $2 $4" = "exec --bind --pwd" ] && [ "$3" = "$5" ] && [ "$6 $7" = "an-image kernel-matrix" ] && cd "$5" || exit 9
touch {notes}/image.$SLURMD_NODENAME
PYTHONPATH={source} exec {python} -m kernel_matrix "${{@:8}}"
"""


@pytest.fixture(params=[("", "thing"), ("an-image", "a thing")], ids=["nodes", "image"])
def far(slurm: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Package]:
    """Make a package that nodes do not see; they have a program of images."""
    (image, name), disk = request.param, str(slurm.disk)
    root, program = slurm.login / request.node.name / name, tmp_path / "bin" / "apptainer"
    entries = ", ".join(
        f"{{ toolchain: {lane}, environment: {{ LANE: {lane}, NOTES: {tmp_path} }} }}"
        for lane in ("good", "red", "ended")
    )
    files = {"tests/test_a.py": TESTS + _OWN.format(disk=disk, login=str(root))}
    places = {"bytecode": ROOT / "build" / BYTECODE, "programs": program.parent, "image": image, "disk": disk}
    program.parent.mkdir()
    program.write_text(_APPTAINER.format(notes=tmp_path, source=ROOT / "src", python=sys.executable))
    program.chmod(0o755)
    made = Package(Suite.made(root, files, SMALL.format(entries=entries, **places)), tmp_path, slurm)
    yield made
    made.end()
    assert any(tmp_path.glob("image.*")) is bool(image)
    left = ("srun", "--nodes=2", "--ntasks=2", "--chdir=/", "ls", disk)
    until(lambda: not slurm.ask(*left).strip(), "nothing is left on the nodes")


@pytest.mark.nightly
def test_nodes_that_do_not_see_the_checkout_get_it_and_their_results_come_back(far):
    lanes = ("--toolchain", "good", "--toolchain", "red")
    assert far.call(*ON, *lanes, "--detach")[0] == 2, "nobody would bring the copies"
    status, said = far.call(*ON, *lanes)
    assert far.states() == {"x86-64/good": "held", "x86-64/red": "fail"}, said
    assert status == 1, said
    logs = [path.read_text() for path in (far.suite.root / "build" / "cluster" / "logs").iterdir()]
    assert sorted(re.search(r" on (km-.)", log)[1] for log in logs) == ["km-a", "km-b"], "logs come back too"


@pytest.mark.nightly
def test_after_ctrl_c_what_had_ended_comes_back_from_nodes_that_do_not_see_the_checkout(far):
    run = far.start(*ON, "--toolchain", "ended", "--toolchain", "good")
    far.wait_for("ended.second")
    until(lambda: "km-b" in far.slurm.ask("squeue", "-h", "-o", "%N"), "the other one runs or ran")
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=60)
    assert (run.returncode, "cancelled all jobs" in said) == (130, True), said
    ended = [record for record in records_in(far.results) if record.case.startswith("here/x86-64/ended/")]
    assert {record.case.rpartition("/")[2]: (record.outcome, record.stage) for record in ended} == {
        "test_first": ("pass", ""),
        "test_second": ("error", "machine"),
        **dict.fromkeys(("test_third", "test_place"), ("missing", "")),
    }
