"""Jobs in containers of a real engine: what they may do, and how those that fail end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from common import ROOT, Doubles, records_in
from records import middle, states

from kernel_matrix.base.owner import OWNER, is_dead, owner
from kernel_matrix.run.container import images
from kernel_matrix.run.container.build import Image
from kernel_matrix.run.container.engine import connect, sweep
from kernel_matrix.run.container.recipe import source_of
from kernel_matrix.store import names

# Print what a job can see and do; this runs inside the job.
_LOOK = """
import json, os, pathlib, shutil, socket, sys
def writable(folder):
    try:
        (pathlib.Path(folder) / "written").write_text("")
    except OSError:
        return False
    return True
status = dict(line.split(":\\t", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
print(json.dumps({
    "uid": os.getuid(),
    "capabilities": int(status["CapEff"], 16),
    "no_new_privileges": status["NoNewPrivs"],
    "interfaces": [name for _, name in socket.if_nameindex()],
    "writable": [folder for folder in ("/", "/opt", "/mnt/source", "/mnt/job", "/tmp") if writable(folder)],
    "source": sorted(os.listdir("/mnt/source")),
    "build": os.listdir("/mnt/source/build"),
    "socket": os.path.exists("/var/run/docker.sock"),
    "first": pathlib.Path("/proc/1/comm").read_text().strip(),
    "own": [shutil.which("python") == sys.executable, os.environ["VIRTUAL_ENV"] == sys.prefix],
}))
"""


def left_over(engine) -> list:
    """Return the containers of this worker's tests; other workers' tests have containers at the same time."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    place = f"/popen-{worker}/" if worker else "/"
    containers = engine.containers.list(all=True, filters={"label": OWNER}, ignore_removed=True)
    return [each for each in containers if any(place in mount.get("Source", "") for mount in each.attrs["Mounts"])]


def processes(*words: str) -> list[int]:
    """Return the processes of this machine that have exactly this command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if tuple(path.read_text().split("\0")[:-1]) == words:
                found.append(int(path.parent.name))
        except OSError:  # the process has just ended
            continue
    return found


def wait_for(condition, seconds: float = 300) -> None:
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "it did not come to that"
        time.sleep(0.05)


def image_of(doubles: Doubles) -> Image:
    """Return the image that the jobs of the doubles run in."""
    client = connect().client
    try:
        return images.build(client, source_of(doubles.matrix, doubles.root, "here"), print)
    finally:
        client.close()


def shell(doubles: Doubles, *command: str, **options) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "kernel_matrix", "shell", "here", "--matrix", str(doubles.root / "matrix.yaml")]
    return subprocess.run([*words, *command], cwd=ROOT, capture_output=True, text=True, check=False, **options)


def test_a_job_in_a_container_has_the_states_and_stages_of_one_in_this_interpreter(engine, contained: Doubles):
    names = ("good", "segfault", "wrong")
    contained.edit("{ case: 15,", "{ case: 60,")
    outcomes = {}
    for executor in ("current", "container"):
        found = contained.run(*names, executor=executor)
        records = [v.record for cell in found.cells for v in cell.cases]
        assert {record.job["executor"] for record in records} == {executor}
        outcomes[executor] = [
            (r.case, r.outcome, r.stage, r.message, r.metrics, r.facts) for r in records if r is not None
        ]
    assert "pass" in {outcome for _, outcome, *_ in outcomes["current"]}, "both could fail alike"
    assert outcomes["current"] == outcomes["container"]
    assert left_over(engine) == []


def test_a_platform_with_an_image_runs_in_it_where_an_engine_answers_and_says_so(engine, contained: Doubles):
    contained.edit("targets: [any]", "targets: [x86-64]")
    contained.edit("{ case: 15,", "{ case: 60,")
    command = [sys.executable, "-m", "kernel_matrix", "run", "--matrix", str(contained.root / "matrix.yaml")]
    done = subprocess.run([*command, "--toolchain", "good"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "here: executor container (a Docker engine answers at unix://" in done.stdout
    record = records_in(contained.root / "build" / "results", "here.good")[0]
    assert record.job["executor"] == "container"
    assert record.job["image"].startswith("kernel-matrix/here:")


def test_a_job_may_write_to_its_folder_and_to_nothing_else(engine, contained: Doubles):
    contained.edit("limits:", "container: { pids: 64 }\nlimits:")
    (contained.root / "build").mkdir()
    (contained.root / "build" / "a-secret").touch()
    done = shell(contained, "--", "python", "-c", _LOOK)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "uid": os.getuid() or 1000,
        "capabilities": 0,
        "no_new_privileges": "1",
        "interfaces": ["lo"],
        "writable": ["/mnt/job", "/tmp"],
        "source": ["bench", "build", "containers", "lock.txt", "matrix.yaml", "src", "suite"],
        "build": [],
        "socket": False,
        "first": "docker-init",
        "own": [True, True],
    }
    assert left_over(engine) == []


def test_a_shell_ends_with_the_status_of_its_command_and_shows_both_outputs(contained: Doubles):
    with (contained.root / "containers" / "here" / "Dockerfile").open("a") as dockerfile:
        dockerfile.write("ENV PATH=/opt/compiler:$PATH\n")
    done = shell(
        contained, "--toolchain", "raises", "--", "sh", "-c", "command -v python; echo $PATH; echo so >&2; exit 7"
    )
    assert done.returncode == 7
    assert done.stdout.startswith("/opt/kernel-matrix/lock/bin/python\n/opt/kernel-matrix/lock/bin:/opt/compiler:/usr/")
    assert done.stderr.endswith("as a job of raises sees it\nso\n")


def test_a_shell_in_a_terminal_is_a_terminal(contained: Doubles):
    """``script`` gives the command a terminal; the command reads what is typed there."""
    command = f"{sys.executable} -m kernel_matrix shell here --matrix {contained.root / 'matrix.yaml'}"
    done = subprocess.run(
        ["script", "--quiet", "--return", "--command", command, "/dev/null"],
        input="tty; id -u; exit 5\n", cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 5, done.stdout
    assert "/dev/pts/0" in done.stdout
    assert f"\n{os.getuid() or 1000}" in done.stdout.replace("\r", "")


def test_a_job_that_exceeds_its_memory_costs_one_case_and_says_so(engine, contained: Doubles):
    contained.edit("limits:", "container: { memory: 0.25 }\nlimits:")
    contained.edit("{ case: 15,", "{ case: 60,")
    comparison = contained.run("hogs-memory", executor="container")
    assert states(comparison) == ["pass", "error", "pass"]
    assert middle(comparison).record.stage == "crash"
    reason = "the process died of SIGKILL in stage launch: it reached the container's memory limit of 0.25 GiB"
    assert middle(comparison).reason == reason
    assert left_over(engine) == []


def test_a_job_that_never_ends_is_stopped(engine, contained: Doubles):
    comparison = contained.run("hang", executor="container")
    assert states(comparison) == ["pass", "error", "pass"]
    assert middle(comparison).record.stage == "timeout"
    assert middle(comparison).reason == "no end after 15 s, in stage launch"
    assert left_over(engine) == []


def test_a_job_that_forks_away_leaves_no_process(engine, contained: Doubles):
    contained.edit("{ case: 15,", "{ case: 60,")
    comparison = contained.run("forks-away", executor="container")
    assert states(comparison) == ["pass", "error", "pass"]
    assert middle(comparison).reason == "the process ended with exit status 0 in stage launch"
    assert left_over(engine) == []
    assert processes("sleep", "4242") == []


def test_an_image_that_cannot_be_built_is_an_install_error_in_the_engine_s_words(engine, contained: Doubles):
    dockerfile = contained.root / "containers" / "here" / "Dockerfile"
    sound = image_of(contained)  # its layers are those below the step that fails
    dockerfile.write_text(f"{dockerfile.read_text()}RUN echo the reason is this >&2; exit 3\n")
    comparison = contained.run("good", "wrong", executor="container")
    assert states(comparison) == ["error"] * 6
    for verdict in (v for cell in comparison.cells for v in cell.cases):
        assert verdict.record.stage == "install"
        assert "the reason is this" in verdict.record.detail
        assert "exit 3' returned a non-zero code: 3" in verdict.record.detail
    steps = [
        str(container.attrs["Config"]["Cmd"]) for container in engine.containers.list(all=True, ignore_removed=True)
    ]
    assert not [step for step in steps if "the reason is this" in step]
    assert engine.images.get(sound.reference).id == sound.id


def test_the_cause_of_a_failed_build_is_said_beside_its_words(engine, contained: Doubles):
    contained.edit("targets: [any]", "targets: [x86-64]")
    dockerfile = contained.root / "containers" / "here" / "Dockerfile"
    command = [sys.executable, "-m", "kernel_matrix", "run", "--matrix", str(contained.root / "matrix.yaml")]
    for text, reason, words in (
        (
            f"ARG BASE=127.0.0.1:1/debian@sha256:{'0' * 64}\nFROM ${{BASE}}\n",
            "connection refused",
            "[registry-not-reached]",
        ),
        (f"{dockerfile.read_text()}RUN echo a reason of its own; exit 3\n", "a reason of its own", "cause: not known"),
    ):
        dockerfile.write_text(text)
        done = subprocess.run([*command, "--toolchain", "good"], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr
        for output in (done.stdout, shell(contained, "--", "true").stderr):
            assert reason in output
            assert words in output
    record = records_in(contained.root / "build" / "results", "here.good")[0]
    assert record.stage == "install"
    assert re.fullmatch(r"containers/here/Dockerfile: step \d+/\d+: a reason of its own", record.message)


def test_a_full_disk_is_the_machine_s_error_and_costs_no_other_job(engine, small_disk, contained: Doubles):
    contained.edit("{ case: 15,", "{ case: 60,")
    contained.edit("tokens: [1, 2, 3]", "tokens: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]")
    small_disk(contained.root / "build" / "jobs" / "here.fills-disk")
    comparison = contained.run("fills-disk", "good", executor="container")
    good, fills = comparison.cells
    assert good.counts == {"pass": 12}
    # The last block of the journal on the disk has room for a few more entries.
    assert fills.counts.keys() == {"error", "pass"}
    assert sorted(states(comparison)[12:], reverse=True) == states(comparison)[12:]
    for verdict in (verdict for verdict in fills.cases if verdict.state == "error"):
        assert verdict.record.stage == "machine"
        assert verdict.reason.startswith("No space left on device: build/jobs/here.fills-disk")
    assert left_over(engine) == []


@pytest.mark.slow
def test_results_that_cannot_be_written_are_missing(small_disk, doubles: Doubles):
    doubles.edit("{ case: 15,", "{ case: 60,")
    small_disk(doubles.root / "build")
    comparison = doubles.run("fills-disk")
    assert states(comparison) == ["missing"] * 3
    assert [path for path in (doubles.root / "build" / "results").rglob("*") if path.is_file()] == []


def test_two_runs_at_once_do_not_see_each_other(engine, contained: Doubles):
    contained.edit("{ case: 15,", "{ case: 60,")
    ended = {}
    threads = [
        threading.Thread(target=lambda name=name: ended.update({name: contained.run(name, executor="container")}))
        for name in ("good", "wrong")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert states(ended["good"]) == ["pass"] * 3
    assert states(ended["wrong"]) == ["pass", "fail", "pass"]
    assert left_over(engine) == []


def test_a_container_that_somebody_removes_is_the_machine_s_error(engine, contained: Doubles):
    contained.edit("{ case: 15,", "{ case: 120,")
    ended = []
    thread = threading.Thread(target=lambda: ended.append(contained.run("hang", executor="container")))
    thread.start()
    journal = contained.root / "build" / "jobs" / "here.hang" / "journal.jsonl"
    wait_for(lambda: journal.exists() and journal.read_text().count('"start"') == 2)
    [container] = left_over(engine)
    container.remove(force=True)
    thread.join()
    [comparison] = ended
    assert states(comparison) == ["pass", "error", "pass"]
    assert middle(comparison).record.stage == "machine"
    assert middle(comparison).reason == "somebody else removed the job's container"


@pytest.mark.nightly
def test_an_engine_killed_in_the_middle_is_the_machine_s_error_and_its_container_is_swept_up(
    engine, own_engine, contained: Doubles
):
    contained.edit("{ case: 15,", "{ case: 120,")
    contained.edit("targets: [any]", "targets: [x86-64]")
    build, jobs = contained.root / "build", ("here.good", "here.hang")
    image = image_of(contained)
    [loaded] = own_engine.client.images.load(b"".join(engine.images.get(image.reference).save()))
    program = (
        "import sys; from kernel_matrix import cli; from kernel_matrix.run.container import images;"
        f"images.build = lambda *_, **__: images.Image({image.reference!r}, {loaded.id!r});"  # without base images
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "run", "--matrix", str(contained.root / "matrix.yaml")]
    command += ["--executor", "container", "--toolchain", "hang"]
    variables = {**os.environ, "DOCKER_HOST": own_engine.address}

    def outcomes() -> list[list[tuple[str, str, str]]]:
        records = [records_in(build / "results", job) for job in jobs]
        return [[(r.outcome, r.stage, r.message.split(":")[0]) for r in of_job] for of_job in records]

    process = subprocess.Popen([*command, "--toolchain", "good"], cwd=ROOT, env=variables, stdout=subprocess.PIPE)
    journal = build / "jobs" / "here.hang" / "journal.jsonl"
    wait_for(
        lambda: (
            names.result_of(build / "results", "here.good")
            and journal.exists()
            and journal.read_text().count('"start"') == 2
        )
    )
    own_engine.kill()
    process.communicate()
    assert process.returncode == 1
    lost = ("error", "machine", "the Docker engine was lost")
    refused = ("error", "machine", "the Docker engine failed to create a container")
    assert outcomes() == [[("pass", "", "")] * 3, [("pass", "", ""), lost, refused]]

    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no Docker engine answers at unix" in done.stderr
    assert outcomes() == [[("pass", "", "")] * 3, [("pass", "", ""), lost, refused]]

    own_engine.start()
    assert len(left_over(own_engine.client)) == 1
    contained.edit("case: 120", "case: 15")
    done = subprocess.run([*command, "--resume"], cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    ended = ("error", "timeout", "no end after 15 s, in stage launch")
    assert outcomes() == [[("pass", "", "")] * 3, [("pass", "", ""), ended, ("pass", "", "")]]
    assert left_over(own_engine.client) == []
    assert not [point for point in own_engine.mounts() if "overlay2/" in point or "netns/" in point]


def test_a_killed_run_s_container_is_swept_up_and_a_living_one_s_is_not(engine, contained: Doubles):
    contained.edit("{ case: 15,", "{ case: 30,")
    contained.edit("targets: [any]", "targets: [x86-64]")
    command = [sys.executable, "-m", "kernel_matrix", "run", "--matrix", str(contained.root / "matrix.yaml")]
    command += ["--executor", "container", "--toolchain", "hang"]
    journal = contained.root / "build" / "jobs" / "here.hang" / "journal.jsonl"
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: journal.exists() and journal.read_text().count('"start"') == 2)
        [container] = left_over(engine)
        sweep(engine)
        container.reload()
        assert container.status == "running"
    finally:
        process.kill()
        process.wait()
    sweep(engine)
    assert left_over(engine) == []
    done = subprocess.run([*command, "--resume"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    records = records_in(contained.root / "build" / "results", "here.hang")
    assert [(record.outcome, record.stage) for record in records] == [("pass", ""), ("error", "timeout"), ("pass", "")]


def test_only_what_is_certainly_dead_is_swept():
    host, boot, namespace, pid, started = owner().split()
    assert not is_dead(owner())
    assert is_dead(f"{host} {boot} {namespace} {pid} 1")
    assert is_dead(f"{host} an-earlier-boot {namespace} {pid} {started}")
    assert not is_dead(f"another-{host} {boot} {namespace} {pid} 1")
    assert not is_dead(f"{host} {boot} another-namespace {pid} 1")
