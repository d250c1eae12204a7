"""The unit of a runner under a real systemd: what one job leaves behind, what it can reach, and when the machine stops.

``machine/boot`` starts a machine that has this one's programs and a systemd of its own, which root may do. GitHub, its
runner and the GPU are the stand-ins in ``machine``; unit, hooks and scripts come from ``ci/runner``.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from common import ROOT
from docker.errors import NotFound

from kernel_matrix.base.owner import OWNER
from kernel_matrix.run.container.engine import SOCKET

MACHINE = ROOT / "tests" / "ci" / "machine"
UNIT = "kernel-matrix-runner.service"
TOKEN = "token-that-administers"
SYSTEMD = Path("/usr/lib/systemd/systemd")
OURS = "owner/kernel-matrix"
# What a real machine has, for tests: nothing waits long, and its small disk is enough.
VARIABLES = f"""KERNEL_MATRIX_REPOSITORY={OURS}
KERNEL_MATRIX_FREE_GIB=0
KERNEL_MATRIX_SETTLE_SECONDS=1
PYTHON=/opt/standins/python-of-harness
PATH=/opt/standins:/opt/python/bin:/usr/local/bin:/usr/bin:/bin
"""
QUICKLY = """[Unit]
StartLimitIntervalSec=0
[Service]
RestartSec=0.1
TimeoutStopSec=20
StandardOutput=append:/jobs/log
StandardError=append:/jobs/log
"""
PUSH = f"""GITHUB_EVENT_NAME=push
GITHUB_REPOSITORY={OURS}
GITHUB_WORKFLOW_REF={OURS}/.github/workflows/main.yml@refs/heads/main
"""
# A job that looks for the token wherever it may read.
SEARCH = f"""
echo "searched by $(id -un)"
cat /etc/kernel-matrix-runner.token
cat "${{CREDENTIALS_DIRECTORY:-/run/credentials}}"/*
grep -rs {TOKEN} /etc /run /var/lib /tmp /proc/[0-9]*/environ /proc/1/root/etc
true
"""
# A job that leaves behind what it can, and a process that does not end when it is told to.
LEAVE = """
for folder in "$HOME" /tmp /var/tmp /dev/shm /dev/mqueue /run /run/lock /var/lib /var/lib/kernel-matrix-runner; do
    touch "$folder/left" 2>/dev/null && echo "wrote to $folder"
done
ipcmk -M 4096 -Q -S 2
setsid bash -c "trap '' TERM; exec -a on-the-gpu sleep 1000" &
until pgrep --full '^on-the-gpu' >/dev/null; do sleep 0.05; done
echo "left $(nvidia-smi --query-compute-apps=pid)"
"""
# A job that says what it finds of those before it.
LOOK = """
find / \\( -path /proc -o -path /usr -o -path /opt \\) -prune -o -name left -print 2>/dev/null | sed 's/^/found: /'
ipcs | grep "$(id -un)" | sed 's/^/found: /'
pgrep --full --list-full '^(sleep|on-the-gpu)' | sed 's/^/found: /'
ls -A "$HOME" | sed 's/^/found: /'
touch "$HOME/left"
"""
FORK = {"pull_request": {"head": {"repo": {"full_name": "somebody/fork"}}, "base": {"repo": {"full_name": OURS}}}}
# The owners of two containers: a process of the machine that has ended, and its systemd.
OWNERS = """
import sys
sys.path.insert(0, "/opt/kernel-matrix/src")
from kernel_matrix.base import owner
ended = owner.owner()
print(ended)
print(*ended.split()[:3], 1, owner._start_of(1))
"""
OUT = "/var/lib/kernel-matrix-runner/out-of-service"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.getuid() != 0 or not SYSTEMD.exists(),
        reason="needs root and systemd, to start a machine in namespaces: apt-get install systemd",
    ),
]


@dataclass
class Machine:
    """Hold a machine that systemd runs, and its jobs."""

    folder: Path
    process: subprocess.Popen[bytes]

    def first(self) -> int:
        """Return its systemd's process, once there is one."""
        inner = _children(_children(self.process.pid)[0])[0]
        assert Path(f"/proc/{inner}/comm").read_text() == "systemd\n"
        return inner

    def is_running(self) -> bool:
        """Return whether systemd has started all that belongs to the machine."""
        with suppress(IndexError, AssertionError, FileNotFoundError):
            return self.sh("systemctl", "is-system-running").startswith("running")
        return False

    def sh(self, *command: str) -> str:
        """Run a command of root on the machine."""
        words = ["nsenter", "--target", str(self.first()), "--all", *command]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
        return f"{done.stdout}{done.stderr}"

    @property
    def log(self) -> str:
        """Return the output of the unit's processes."""
        path = self.folder / "jobs" / "log"
        return path.read_text() if path.exists() else ""

    @property
    def asked(self) -> list[str]:
        """Return the questions to GitHub: one configuration for each job."""
        return (self.folder / "jobs" / "asked").read_text().splitlines()

    def of(self, number: int) -> str:
        """Return what the job of this number printed, up to the next configuration."""
        return re.split(rf"^job {number} begins$", self.log, flags=re.MULTILINE)[1].partition("in service")[0]

    def job(self, number: int, script: str, variables: str = PUSH, event: str = "{}") -> None:
        """Let GitHub send a job."""
        folder = self.folder / "jobs" / str(number)
        folder.mkdir()
        (folder / "variables").write_text(variables)
        (folder / "event.json").write_text(event)
        (folder / "later").write_text(script)
        (folder / "later").rename(folder / "script")

    def next_job(self, script: str) -> int:
        """Let GitHub send a job to the runner that waits for one, and return its number."""
        until(lambda: not (self.folder / "jobs" / str(len(self.asked))).exists(), 30, lambda: self.log)
        number = len(self.asked)
        self.job(number, script)
        return number

    def wait(self, words: str, seconds: float = 180) -> None:
        """Wait until the log has these words."""
        until(lambda: words in self.log, seconds, lambda: self.log)


def until(condition, seconds: float, said=lambda: "") -> None:
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, f"it did not come to that: {said()}"
        time.sleep(0.05)


def _children(process: int) -> list[int]:
    done = subprocess.run(["pgrep", "--parent", str(process)], capture_output=True, text=True, check=False)
    return [int(line) for line in done.stdout.split()]


def write_etc(folder: Path, engine: str) -> None:
    """Write what a person writes who follows ci/runner/README.md, with the tests' times."""
    units = folder / "systemd" / "system"
    (units / f"{UNIT}.d").mkdir(parents=True)
    shutil.copy(ROOT / "ci" / "runner" / UNIT, units)
    (units / f"{UNIT}.d" / "quickly.conf").write_text(QUICKLY)
    (folder / "kernel-matrix-runner.env").write_text(VARIABLES)
    (folder / "kernel-matrix-runner.token").write_text(f"{TOKEN}\n")
    (folder / "kernel-matrix-runner.token").chmod(0o600)
    (folder / "passwd").write_text("root:x:0:0::/root:/bin/sh\nkernel-matrix:x:900:900::/home/kernel-matrix:/bin/sh\n")
    # Where an engine answers, the account is in its group by mistake.
    groups = f"engine:x:{Path(engine).stat().st_gid}:kernel-matrix\n" if engine else ""
    (folder / "group").write_text(f"{groups}root:x:0:\nkernel-matrix:x:900:\n")


@pytest.fixture(scope="module")
def machine(tmp_path_factory) -> Iterator[Machine]:
    """Start a machine whose runner waits for its first job."""
    folder = tmp_path_factory.mktemp("machine")
    (folder / "jobs").mkdir()
    address = os.environ.get("DOCKER_HOST", SOCKET).removeprefix("unix://")
    engine = address if Path(address).is_socket() else ""
    write_etc(folder / "etc", engine)
    command = ["setpriv", "--pdeathsig", "TERM", "unshare", "--mount", str(MACHINE / "boot"), str(folder)]
    command += [sys.base_prefix, sysconfig.get_path("purelib"), str(ROOT)]
    variables = {**os.environ, "DOCKER": engine}
    with (folder / "console").open("wb") as console:
        process = subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL, stdout=console, stderr=console)
    made = Machine(folder, process)
    try:
        until(lambda: made.is_running() or process.poll() is not None, 60, (folder / "console").read_text)
        if process.poll() is not None:
            pytest.skip(f"needs to start a machine in namespaces: {(folder / 'console').read_text()}")
        assert made.sh("systemctl", "start", "kernel-matrix-runner") == ""
        yield made
    finally:
        process.terminate()
        process.wait(180)


@pytest.fixture(scope="module")
def played(machine) -> Machine:
    """Send ten jobs, and restart the unit in the middle of the fifth."""
    scripts = [SEARCH, LEAVE, LOOK, "touch $HOME/left; echo a fork ran", f"{LEAVE}sleep 1000", *[LOOK] * 5]
    for number, script in enumerate(scripts, 1):
        fork = number == 4
        variables = PUSH.replace("NAME=push", "NAME=pull_request") if fork else PUSH
        machine.job(number, script, variables, json.dumps(FORK if fork else {}))
    machine.wait("job 5 begins")
    until(lambda: "left " in machine.of(5), 180)
    machine.sh("systemctl", "restart", "kernel-matrix-runner")
    until(lambda: "job 10 ends: 0" in machine.log and len(machine.asked) == 11, 180, lambda: machine.log)
    return machine


def test_ten_jobs_run_one_after_the_other_each_with_a_registration_of_its_own(played):
    ends = re.findall(r"^job (\d+) ends: (.+)$", played.log, re.MULTILINE)
    assert ends == [(str(n), "refused" if n == 4 else "0") for n in range(1, 11) if n != 5]
    assert len(played.asked) == 11, "the eleventh waits for a job"
    assert all("labels[]=sm_121" in asked for asked in played.asked)


def test_a_job_does_not_reach_the_token(played):
    assert "searched by kernel-matrix" in played.of(1)
    assert TOKEN not in played.log
    assert played.sh("cat", "/etc/kernel-matrix-runner.token").strip() == TOKEN, "there was something to reach"


def test_nothing_that_a_job_leaves_is_there_for_the_next(played):
    left = played.of(2)
    assert set(re.findall("wrote to (.+)", left)) == {
        *("/var/lib/kernel-matrix-job/home", "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue"),
    }
    assert len(re.findall(" id: ", left)) == 3, left
    assert "this machine is not clean::a GPU is in use by" in left, "the hook after the job says it"
    for number in (3, 6, 7, 8, 9, 10):
        assert "found: " not in played.of(number), number


def test_a_restart_in_the_middle_of_a_job_ends_it_and_the_next_job_finds_nothing_of_it(played):
    assert "left " in played.of(5)
    assert "job 5 ends" not in played.log
    assert "job 6 ends: 0" in played.of(6)


def test_a_fork_s_job_is_refused_before_its_first_step(played):
    assert "refuses the job::the pull request comes from somebody/fork" in played.of(4)
    assert "a fork ran" not in played.log


def test_a_neighbour_on_the_gpu_takes_the_machine_out_until_a_person_brings_it_back(played):
    played.sh("bash", "-c", "exec -a on-the-gpu sleep 1000 >/dev/null 2>&1 &")
    process = played.sh("pgrep", "--full", "^on-the-gpu").strip()
    number = played.next_job("echo measured on a busy machine")
    until(lambda: played.sh("systemctl", "is-active", UNIT).strip() in ("inactive", "failed"), 30, lambda: played.log)
    assert f"after a job: a GPU is in use by {process}, on-the-gpu" in played.sh("cat", OUT)
    assert played.sh("pgrep", "--full", "^on-the-gpu").strip() == process, "it is a person's"
    assert "measured" not in played.of(number)
    played.sh("kill", process)
    [remedy] = set(re.findall("When it is mended: (.+)", played.log))
    assert played.sh("sh", "-ec", remedy) == ""
    number = played.next_job("echo measured")
    played.wait(f"job {number} ends: 0")


def test_an_engine_keeps_a_neighbour_s_container_and_is_out_of_a_job_s_reach(played, engine):
    ended, living = played.sh("python3", "-c", OWNERS).splitlines()
    empty = io.BytesIO()
    tarfile.open(fileobj=empty, mode="w").close()
    image = json.loads(engine.api.import_image_from_data(empty.getvalue()))["status"]
    made = [engine.containers.create(image, "nothing", labels={OWNER: owner}) for owner in (ended, living)]
    try:
        number = played.next_job("docker ps && echo reached the engine; true")
        until(lambda: len(played.asked) > number, 30, lambda: played.log)
        left = {container.id for container in engine.containers.list(all=True)}
        assert [container.id in left for container in made] == [False, True], played.of(number)
        assert "reached the engine" not in played.of(number)
    finally:
        for container in made:
            with suppress(NotFound):
                container.remove()
        engine.images.remove(image)


def test_systemd_understands_all_of_the_unit(played):
    assert played.sh("systemd-analyze", "verify", UNIT) == ""
