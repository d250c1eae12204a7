"""An executor is chosen, and checks the machine before a job starts. These tests need no engine."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from platform import python_version

import pytest
from common import CPU, ROOT, Doubles, harness, records_in
from docker.types import DeviceRequest
from records import middle, states
from together import first_are_quick

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.locking import locked
from kernel_matrix.config.plan import plan
from kernel_matrix.run import job_run
from kernel_matrix.run.container import engine
from kernel_matrix.run.container import executor as container
from kernel_matrix.run.container.sandbox import Sandbox
from kernel_matrix.run.executors import UnavailableError
from kernel_matrix.run.in_container import attach
from kernel_matrix.run.settings import choose_executor
from kernel_matrix.store.record import Record
from kernel_matrix.store.write import write
from kernel_matrix.vendors import amd, nvidia
from kernel_matrix.vendors.vendor import Device

GPU = Device("nvidia", "a GPU", ("any",), "570.86")


@pytest.fixture
def no_engine(tmp_path, monkeypatch) -> str:
    address = f"unix://{tmp_path}/docker.sock"
    monkeypatch.setenv("DOCKER_HOST", address)
    return address


def gone(pid: int) -> bool:
    """Return whether the process has ended; its parent may not have waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_without_an_engine_a_platform_s_jobs_run_in_environments_and_the_reason_is_said(matrix, no_engine):
    platform = matrix.platforms["cpu-llvm"]
    assert choose_executor("auto", platform) == ("venv", f"no containers: no Docker engine answers at {no_engine}")
    without = platform.model_copy(update={"container": None})
    assert choose_executor("auto", without) == ("venv", "matrix.yaml names no container for it")


def test_with_an_engine_they_run_in_containers(matrix, engine):
    name, why = choose_executor("auto", matrix.platforms["cpu-llvm"])
    assert name == "container"
    assert why.startswith("a Docker engine answers at unix://")


def test_containers_that_were_asked_for_and_are_not_here_end_the_run_and_leave_earlier_results(here, no_engine):
    here.in_containers()
    case = plan(here.matrix, "quick").cases[0].id
    write(here.root / "build" / "results", {"job": "here.good"}, [Record(case, "pass", "run")])
    for command in ("run", "matrix"):
        done = harness(command, "--matrix", str(here.root / "matrix.yaml"), "--executor", "container")
        assert done.returncode == 2
        assert "Nothing ran, and earlier results stay." in done.stderr
        assert f"--executor container: no Docker engine answers at {no_engine}" in done.stderr
    assert [record.outcome for record in records_in(here.root / "build" / "results", "here.good")] == ["pass"]


def test_a_terminal_in_a_container_needs_docker_s_client_and_says_so(monkeypatch):
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="needs Docker's client, and no 'docker' is on PATH"):
        attach(None, ["bash"], {})


@pytest.mark.slow
def test_an_engine_that_cannot_be_used_is_said_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere:2375")
    with pytest.raises(UnavailableError, match="is another machine's, where this one's folders are not"):
        engine.connect()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/s")
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(f"{tmp_path}/s")
        with pytest.raises(UnavailableError, match="no Docker engine answers at"):
            engine.connect()
    if os.getuid() == 0:
        (tmp_path / "s").chmod(0o600)
        tmp_path.chmod(0o755)
        program = "import os; from kernel_matrix.run.container import engine; os.setuid(65534); engine.connect()"
        done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
        assert "UnavailableError: this user may not reach the Docker engine at" in done.stderr


@pytest.mark.slow
def test_a_driver_older_than_the_image_needs_makes_cells_unavailable(doubles: Doubles, no_engine, monkeypatch):
    monkeypatch.setattr(job_run, "choose_executor", lambda *_: ("container", "an engine answered a moment ago"))
    doubles.in_containers()
    doubles.edit("device: cpu", 'device: nvidia\n    driver: "580"')
    comparison = doubles.run("good", executor="container", device=GPU)
    assert states(comparison) == ["unavailable"] * 3
    assert middle(comparison).reason == "the image of here needs driver 580 or newer, and a GPU has 570.86"


def test_a_python_for_which_a_toolchain_has_no_packages_makes_cells_unavailable(doubles: Doubles):
    doubles.edit("requires: [numpy]", 'requires: [numpy], python: "<3"')
    comparison = doubles.run("good", executor="venv")
    assert states(comparison) == ["unavailable"] * 3
    assert middle(comparison).reason.startswith(f"its packages are for Python <3, and this is {python_version()}")
    assert not (doubles.root / "build" / "envs").exists()


def test_a_gpu_that_the_engine_cannot_give_makes_cells_unavailable(contained: Doubles):
    """This machine has no GPU of the two vendors, and the engine reports that in its own words."""
    for vendor in ("nvidia", "amd"):
        contained.edit(f"device: {'cpu' if vendor == 'nvidia' else 'nvidia'}", f"device: {vendor}")
        device = Device(vendor, "a GPU", ("any",), "")
        comparison = contained.run("good", executor="container", device=device)
        assert states(comparison) == ["unavailable"] * 3
        assert middle(comparison).reason.startswith("the engine gives no this machine device to a container: ")


def test_a_disk_without_room_for_results_makes_cells_unavailable(contained: Doubles, monkeypatch):
    monkeypatch.setattr(container, "_RESULTS", 1 << 60)
    comparison = contained.run("good", executor="container")
    assert states(comparison) == ["unavailable"] * 3
    assert "MiB are needed for a job's results" in middle(comparison).reason


def test_a_disk_without_room_for_an_image_makes_cells_unavailable_unless_the_image_is_there(contained: Doubles):
    contained.edit("{ case: 15,", "{ case: 60,")
    assert states(contained.run("good", executor="container")) == ["pass"] * 3
    contained.edit("limits:", "container: { disk: 1.0e+6 }\nlimits:")
    assert states(contained.run("good", executor="container")) == ["pass"] * 3
    dockerfile = contained.root / "containers" / "here" / "Dockerfile"
    dockerfile.write_text(f"{dockerfile.read_text()}RUN echo another\n")
    comparison = contained.run("good", executor="container")
    assert states(comparison) == ["unavailable"] * 3
    assert "1024000000 MiB are needed to make an image" in middle(comparison).reason


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["current", "container"])
def test_a_broken_gpu_is_the_machine_s_error_and_no_kernel_s(executor, request, doubles: Doubles, monkeypatch):
    if executor == "container":
        request.getfixturevalue("contained")
        monkeypatch.setattr(container.ContainerInterpreter, "demand_device", lambda _: None)
        monkeypatch.setattr(Sandbox, "device_options", lambda _: {})
    (doubles.root / "preflight.py").write_text("import sys\nprint('looking')\nsys.exit('its memory is full')\n")
    doubles.edit("suite: suite", "suite: suite, preflight: preflight.py")
    doubles.edit("{ case: 15,", "{ case: 60,")
    doubles.edit("device: cpu", "device: nvidia")
    comparison = doubles.run("good", executor=executor, device=GPU)
    assert states(comparison) == ["error"] * 3
    record = middle(comparison).record
    assert (record.stage, record.action) == ("machine", "")
    assert record.message == "a GPU is not fit for work: its memory is full"

    (doubles.root / "preflight.py").write_text("print('well')\n")
    assert states(doubles.run("good", executor=executor, device=GPU)) == ["pass"] * 3
    (doubles.root / "preflight.py").write_text("import time\ntime.sleep(600)\n")
    doubles.edit("{ case: 60,", "{ case: 2,")
    assert middle(doubles.run("good", executor=executor, device=GPU)).reason.endswith("had no answer within 2 s")


@pytest.mark.slow
def test_a_cpu_is_not_asked_for_a_preflight(doubles: Doubles):
    doubles.edit("{ case: 15,", "{ case: 60,")
    (doubles.root / "preflight.py").write_text("raise SystemExit('never run')\n")
    doubles.edit("suite: suite", "suite: suite, preflight: preflight.py")
    assert states(doubles.run("good", device=CPU)) == ["pass"] * 3


def test_an_amd_gpu_is_given_by_its_device_files_and_their_groups_numbers(tmp_path):
    (tmp_path / "dri").mkdir()
    for name in ("kfd", "dri/renderD128", "dri/card0"):
        (tmp_path / name).touch()
    group = (tmp_path / "kfd").stat().st_gid
    assert amd.container_options(tmp_path) == {
        "devices": [f"{tmp_path}/kfd:/dev/kfd:rw", f"{tmp_path}/dri:/dev/dri:rw"],
        "group_add": [group],
    }


def test_an_nvidia_gpu_is_asked_for_by_a_device_request():
    [every] = nvidia.container_options({})["device_requests"]
    assert every == {"count": -1, "capabilities": [["gpu"]]}
    assert DeviceRequest(**every)["Count"] == -1, "the SDK takes them by these names"
    [chosen] = nvidia.container_options({"CUDA_VISIBLE_DEVICES": "1,3"})["device_requests"]
    assert DeviceRequest(**chosen)["DeviceIDs"] == ["1", "3"]


@pytest.mark.parametrize("number", first_are_quick(1, [signal.SIGKILL, signal.SIGTERM]))
@pytest.mark.slow
def test_a_job_ends_with_its_harness_however_that_ends(doubles: Doubles, number):
    doubles.edit("targets: [any]", "targets: [x86-64]")
    doubles.edit("{ case: 15,", "{ case: 600,")
    command = [sys.executable, "-m", "kernel_matrix", "run", "--matrix", str(doubles.root / "matrix.yaml")]
    command += ["--executor", "current", "--toolchain", "hang"]
    journal = doubles.root / "build" / "jobs" / "here.hang" / "journal.jsonl"
    harness = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    give_up = time.monotonic() + 300
    while not (journal.exists() and journal.read_text().count('"start"') == 2):
        assert time.monotonic() < give_up
        time.sleep(0.05)
    job = json.loads(journal.read_text().splitlines()[0])["pid"]
    assert not gone(job)
    harness.send_signal(number)
    assert harness.wait(300) == (130 if number == signal.SIGTERM else -signal.SIGKILL)
    while not gone(job):
        assert time.monotonic() < give_up
        time.sleep(0.05)


@pytest.mark.slow
def test_a_second_run_of_the_same_job_in_the_same_folder_is_refused(doubles: Doubles):
    doubles.edit("targets: [any]", "targets: [x86-64]")
    command = [sys.executable, "-m", "kernel_matrix", "run", "--matrix", str(doubles.root / "matrix.yaml")]
    command += ["--executor", "current", "--toolchain", "good"]
    with locked(doubles.root / "build" / "jobs" / "here.good.lock"):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "here.good: another run is at it. Wait for its end, or give --build FOLDER." in done.stderr


WAITS = """
import signal, sys, threading, time
from kernel_matrix.cli.interruption import interrupt_on_signals

interrupt_on_signals()
other = threading.Thread(target=time.sleep, args=(60,), daemon=True)
other.start()
lock = threading.Lock()
lock.acquire()
threading.Timer(0.5, lambda: signal.pthread_kill(other.ident, signal.{number})).start()
try:
    lock.acquire()
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("number", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_that_does_not_wake_the_main_thread_ends_its_wait_all_the_same(number):
    """A signal that comes just before a wait begins has the same effect, and cannot be made to come then."""
    program = [sys.executable, "-c", WAITS.replace("{number}", number)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    assert subprocess.run(program, env=environment, timeout=300, check=False).returncode == 130
