"""doctor is right about this machine, and about a machine that lacks one thing."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from common import ROOT, Doubles, harness
from serving import serving

from kernel_matrix.doctor import engine_check, environment, image_checks, machine_checks
from kernel_matrix.doctor import findings as doctor
from kernel_matrix.doctor.findings import examine
from kernel_matrix.doctor.reachable import prospects
from kernel_matrix.run.container import places
from kernel_matrix.run.container.engine import Engine
from kernel_matrix.run.environments.local import LocalInterpreter
from kernel_matrix.run.executors import UnavailableError
from kernel_matrix.vendors import cpu, nvidia, system
from kernel_matrix.vendors.finding import Finding
from kernel_matrix.vendors.machine import Machine, detect
from kernel_matrix.vendors.system import Answer, is_on_pci_bus
from kernel_matrix.vendors.vendor import Device

# The variables of pytest, of package indexes and of the Docker engine: what tests set and no compiler reads.
OF_NO_COMPILER = ("PYTEST_", "PIP_", "UV_", "DOCKER_", "KERNEL_MATRIX_")


@pytest.fixture(scope="module", autouse=True)
def each_compiler_is_tried_once() -> Iterator[None]:
    """Remember what each compiler said of the small program, under the variables that it had."""
    answers: dict[tuple, Answer] = {}

    def ask(command: list[str]) -> Answer:
        compiler, *options, output, program, source = command
        variables = {name: value for name, value in os.environ.items() if not name.startswith(OF_NO_COMPILER)}
        key = (compiler, *options, *sorted(variables.items()))
        if key not in answers:
            answers[key] = system.ask([compiler, *options, output, program, source])
        return answers[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "ask", ask)
        yield


@pytest.fixture
def look(matrix, tmp_path):
    """Examine this machine without what the test has removed from it."""

    def found() -> dict[str, Finding]:
        return {finding.what: finding for finding in examine(matrix, ROOT, tmp_path / "build", detect())}

    return found


def only(folder: Path, *programs: str) -> str:
    """Set a PATH that has only these programs."""
    folder.mkdir()
    for program in programs:
        if path := shutil.which(program):
            (folder / program).symlink_to(path)
    return str(folder)


@pytest.mark.slow
def test_this_machine_is_whole_enough_to_test_on(look):
    found = look()
    for what in ("Python", "uv", "g++", "build folder", "home", "temporary folder", "CA bundle", "package index"):
        assert found[what].status == "good", found[what]
    assert found["cpu device"].text.endswith("x86-64")


@pytest.mark.slow
def test_without_a_compiler_the_cpu_platform_says_what_to_install(look, matrix, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", only(tmp_path / "bin", "uv"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    monkeypatch.delenv("CXX", raising=False)
    found = look()
    assert found["g++"].status == "broken"
    assert found["g++"].remedy == "sudo apt-get install g++"
    cpu = next(p for p in prospects(matrix, list(found.values()), detect()) if p.platform == "cpu-llvm")
    assert (cpu.reaches, cpu.command) == ("planned", "sudo apt-get install g++")


@pytest.mark.slow
def test_a_compiler_that_does_not_compile_is_broken_with_its_own_words(look, tmp_path, monkeypatch):
    fake = tmp_path / "cxx"
    fake.write_text("#!/bin/sh\n[ \"$1\" = --version ] && exit\necho 'cannot execute cc1plus' >&2; exit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("CXX", str(fake))
    assert "cannot execute cc1plus" in look()["g++"].text


@pytest.mark.slow
def test_without_nvcc_and_hipcc_it_says_what_that_costs(look, matrix, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", only(tmp_path / "bin", "g++", "as", "ld"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    monkeypatch.setenv("ROCM_PATH", "/nowhere")
    found = look()
    assert found["nvcc"].status == found["hipcc"].status == "absent"
    assert found["nvcc"].text.endswith("no toolchain of matrix.yaml needs it of this machine")
    assert "rocm: tilelang-0.1.8, tilelang-0.1.15, cpp stay at 'lowered' without it" in found["hipcc"].text
    without_gpu = Machine((Device("cpu", "test", ("x86-64-v3",)),))
    reaches = {p.platform: p.reaches for p in prospects(matrix, list(found.values()), without_gpu)}
    assert reaches == {
        "cpu-llvm": "ran",
        "cuda": "compiled",
        "rocm": "lowered",
        "intel": "lowered",
        "opencl": "emulated",
        "webgpu": "emulated",
        "tpu": "emulated",
        "metal": "lowered",
        "ascend": "lowered",
        **dict.fromkeys(("metax", "musa", "cambricon", "hygon"), "planned"),
    }


@pytest.mark.slow
def test_without_qemu_it_says_which_targets_are_lost_and_the_others_still_run(look, matrix, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", only(tmp_path / "bin", "uv"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    found = look()
    lost = "cpu-llvm: tvm-0.27 (neoverse-n1, neoverse-v2), tilelang-0.1.15 (neoverse-n1, neoverse-v2) stay at 'planned'"
    for name, command in (("qemu-aarch64", "qemu-user-static"), ("aarch64-linux-gnu-g++", "g++-aarch64-linux-gnu")):
        assert found[name].status == "absent"
        assert lost in found[name].text
        assert found[name].remedy.startswith(f"sudo apt-get install {command}")
    here = Machine((Device("cpu", "test", ("x86-64-v3",)),))
    found["g++"] = Finding("g++", "good", "on another PATH")
    cpu = next(p for p in prospects(matrix, list(found.values()), here) if p.platform == "cpu-llvm")
    assert cpu.reaches == "ran"
    assert "aarch64-linux-gnu-g++" in cpu.lacking
    assert cpu.command.startswith("sudo apt-get install g++-aarch64-linux-gnu")


@pytest.mark.slow
def test_without_docker_it_says_so_and_that_the_rest_does_without(look, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    monkeypatch.setenv("PATH", only(tmp_path / "bin", "uv"))
    found = look()["Docker"]
    assert found.status == "absent"
    assert found.text == "no client is here, and there is no daemon at /nowhere.sock; the executor venv does without"


def test_with_an_engine_the_images_bring_the_compilers_that_this_machine_lacks(
    engine, look, matrix, tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", only(tmp_path / "bin", "uv"))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("ROCM_PATH", "/nowhere")
    found = look()
    assert (found["Docker"].status, found["g++"].status, found["hipcc"].status) == ("good", "broken", "absent")
    here = Machine((Device("cpu", "test", ("x86-64-v3",)),))
    reaches = {p.platform: p.reaches for p in prospects(matrix, list(found.values()), here)}
    assert (reaches["cpu-llvm"], reaches["cuda"], reaches["rocm"]) == ("ran", "compiled", "emulated")


def test_the_doctor_s_answer_about_docker_is_that_of_the_runs(tmp_path, monkeypatch):
    closed = []
    client = SimpleNamespace(close=lambda: closed.append(True))
    monkeypatch.setattr(engine_check, "connect", lambda: Engine(client, "unix:///one.sock", 4.0, tmp_path))
    finding = machine_checks.docker_engine()
    assert (finding.status, finding.text) == ("good", "an engine answers at unix:///one.sock, with 4 CPUs")
    assert closed

    def refuse():
        raise UnavailableError("the Docker engine is rootless")

    monkeypatch.setattr(engine_check, "connect", refuse)
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")
    assert machine_checks.docker_engine().status == "absent", "another machine's engine is none of this one's"
    (tmp_path / "docker.sock").touch()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    finding = machine_checks.docker_engine()
    assert (finding.status, finding.text) == ("broken", "the Docker engine is rootless")
    monkeypatch.setattr(machine_checks.os, "access", lambda *_: False)
    assert machine_checks.docker_engine().remedy.startswith("sudo usermod -aG docker")


@pytest.mark.slow
def test_a_socket_that_nobody_answers_is_broken(look, tmp_path, monkeypatch):
    import socket

    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))  # bound, but never listening
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    assert look()["Docker"].status == "broken"


@pytest.mark.slow
def test_a_ca_bundle_that_is_not_there_is_named_with_its_variable(look, monkeypatch):
    monkeypatch.setenv("PIP_CERT", "/nowhere.pem")
    found = look()["CA bundle"]
    assert found.status == "broken"
    assert "PIP_CERT=/nowhere.pem" in found.text


@pytest.mark.slow
def test_an_index_that_cannot_be_reached_is_diagnosed(look, monkeypatch):
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.delenv("UV_INDEX", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    found = look()["package index"]
    assert found.status == "broken"
    assert "No server answers" in found.text


@pytest.fixture
def strange_index(tmp_path) -> Iterator[tuple[str, Path]]:
    """Start a package index behind TLS, and return it with a CA that signed its certificate and one that did not."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl, to make certificates")
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-config", "/dev/null"]
    right = [
        "-CA",
        f"{tmp_path}/right.pem",
        "-CAkey",
        f"{tmp_path}/right.key",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ]
    for name, is_authority, more in (("right", "TRUE", []), ("wrong", "TRUE", []), ("server", "FALSE", right)):
        files = ["-keyout", f"{tmp_path}/{name}.key", "-out", f"{tmp_path}/{name}.pem", "-subj", f"/CN={name}"]
        about = ["-addext", f"basicConstraints=critical,CA:{is_authority}"]
        subprocess.run([*make, *files, *about, *more], capture_output=True, check=True)
    page = b"<a href='/iniconfig-2.0.0-py3-none-any.whl' data-core-metadata='true'>iniconfig-2.0.0-py3-none-any.whl</a>"
    metadata = b"Metadata-Version: 2.1\nName: iniconfig\nVersion: 2.0.0\n"

    class Index(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = metadata if self.path.endswith(".metadata") else page
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with serving(server):
        yield f"https://127.0.0.1:{server.server_port}/simple", tmp_path


@pytest.mark.slow
def test_a_valid_ca_of_somebody_else_is_told_from_an_index_that_is_down(look, strange_index, monkeypatch):
    address, folder = strange_index
    for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "UV_INDEX", "PIP_EXTRA_INDEX_URL", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UV_DEFAULT_INDEX", address)
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "wrong.pem"))
    found = look()
    assert found["CA bundle"].status == "good", "it is a bundle, and of no use here"
    assert found["package index"].status == "broken"
    assert "certificate" in found["package index"].text
    assert "SSL_CERT_FILE" in found["package index"].remedy
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "right.pem"))
    assert look()["package index"].status == "good"


@pytest.mark.slow
def test_a_home_on_a_read_only_disk_is_told_in_the_system_s_words(look, matrix, tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(home)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"needs to mount a read-only disk: {done.stderr.strip()}")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("UV_CACHE_DIR", raising=False)
    try:
        found = look()
    finally:
        subprocess.run(["umount", str(home)], check=True)
    assert found["home"].text == f"{home} cannot be written to: Read-only file system"
    assert (found["uv's cache"].status, found["build folder"].status) == ("broken", "good")


@pytest.mark.slow
def test_a_home_that_cannot_be_written_to_is_named_with_a_way_out(look, monkeypatch):
    monkeypatch.setenv("HOME", "/proc")  # even root cannot write there
    found = look()["home"]
    assert found.status == "broken"
    assert found.remedy.startswith("export HOME=")


OTHER = """
  rocm:
    title: another vendor
    device: amd
    runner: [self-hosted, linux, x64, amd]
    targets: [gfx942]
    toolchains: [good]
"""


@pytest.mark.slow
def test_of_another_matrix_only_what_it_needs_is_told(doubles: Doubles, tmp_path, monkeypatch):
    """A matrix that needs no program compiles for a GPU without one, and the lack of a program is no fault of it."""
    doubles.edit("platforms:", f"platforms:{OTHER.rstrip()}")
    doubles.edit("good: { backend: good,", "good: { backend: good, ahead_of_time: true,")
    monkeypatch.setenv("PATH", only(tmp_path / "bin", "uv"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    monkeypatch.setenv("ROCM_PATH", "/nowhere")
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    matrix = doubles.matrix
    found = {finding.what: finding for finding in examine(matrix, doubles.root, tmp_path / "build", detect())}
    assert {found[name].status for name in ("g++", "nvcc", "hipcc")} == {"absent"}
    for name in ("g++", "nvcc", "hipcc"):
        assert found[name].text.endswith("no toolchain of matrix.yaml needs it of this machine")
    here = Machine((Device("cpu", "test", ("any",)),))
    seen = {p.platform: p for p in prospects(matrix, list(found.values()), here)}
    assert (seen["here"].reaches, seen["rocm"].reaches) == ("ran", "compiled")
    assert seen["rocm"].lacking == "a GPU of gfx942"


def test_the_disk_needs_room_for_the_environments_of_the_matrix(tmp_path, monkeypatch):
    usage = SimpleNamespace(free=5 << 30)
    monkeypatch.setattr(machine_checks.shutil, "disk_usage", lambda _: usage)
    assert machine_checks.room(tmp_path, 1).status == "good"
    assert machine_checks.room(tmp_path, 5).text.endswith("all environments together want 12")


@pytest.mark.slow
def test_an_old_python_comes_first(look, matrix, monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    found = list(look().values())
    assert next(f for f in found if f.what == "Python").status == "broken"
    assert {(p.reaches, p.lacking) for p in prospects(matrix, found, detect())} == {("planned", "Python first")}


@pytest.mark.slow
def test_a_disk_without_room_for_the_environments_is_said(matrix, small_disk, tmp_path):
    small_disk(tmp_path / "small")
    found = {finding.what: finding for finding in examine(matrix, ROOT, tmp_path / "small" / "build", detect())}
    assert found["disk"].status == "broken"
    assert f"0 GiB free at {tmp_path / 'small'}" in found["disk"].text


def test_a_gpu_raises_its_platform_to_ran_and_a_missing_driver_lowers_it(matrix):
    gpu = Machine((Device("nvidia", "NVIDIA H200", ("sm_90",), "580.1"),))
    fine = [
        Finding("g++", "good", ""),
        Finding("hipcc", "absent", "", "install ROCm"),
        Finding("NVIDIA driver", "good", "580.1"),
    ]
    cuda = next(p for p in prospects(matrix, fine, gpu) if p.platform == "cuda")
    assert cuda.reaches == "ran"
    assert cuda.lacking.startswith("sm_80, sm_100")
    hidden = [
        Finding("g++", "good", ""),
        Finding("hipcc", "good", ""),
        Finding("NVIDIA driver", "broken", "", "install the driver"),
    ]
    cuda = next(p for p in prospects(matrix, hidden, Machine(())) if p.platform == "cuda")
    assert (cuda.reaches, cuda.command) == ("compiled", "install the driver")


def test_a_gpu_that_is_here_and_cannot_be_opened_runs_nothing(matrix):
    gpu = Machine((Device("amd", "AMD gfx942", ("gfx942",)),))
    closed = [
        Finding("AMD driver", "broken", "/dev/kfd cannot be opened", "join the group"),
        Finding("g++", "good", ""),
    ]
    rocm = next(p for p in prospects(matrix, closed, gpu) if p.platform == "rocm")
    assert (rocm.reaches, rocm.command) == ("compiled", "join the group")


@pytest.fixture(scope="module")
def what_is_here(tmp_path_factory) -> environment.Environment:
    return environment.examine(LocalInterpreter(Path(sys.executable)), tmp_path_factory.mktemp("scratch"))


@pytest.fixture
def image(matrix, tmp_path, monkeypatch, what_is_here):
    """Pretend to be in the image of cuda: each environment is this interpreter, and the locks name what it has."""
    ask = environment.examine

    def ask_others(interpreter: LocalInterpreter, scratch: Path) -> environment.Environment:
        return what_is_here if str(interpreter.python) == sys.executable else ask(interpreter, scratch)

    monkeypatch.setattr(image_checks, "examine", ask_others)
    here = f"pytest=={importlib.metadata.version('pytest')}\nnumpy=={importlib.metadata.version('numpy')}\n"
    for toolchain in matrix.toolchains.values():
        lock = tmp_path / toolchain.lock
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.write_text(f"# a lock\n{here}    # via nothing\nnobody==1 ; sys_platform == 'win32'\n")
    monkeypatch.setenv(doctor.PLATFORM, "cuda")
    monkeypatch.setattr(places, "python_of", lambda lock: sys.executable)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")

    def found() -> dict[str, Finding]:
        return {finding.what: finding for finding in examine(matrix, tmp_path, tmp_path / "build", detect())}

    return found


@pytest.mark.slow
def test_in_an_image_its_environments_are_looked_at_and_nothing_that_fetches(image, matrix):
    found = image()
    environments = {what for what in found if what.startswith("environment ")}
    assert environments == {f"environment {name}" for name in (
        "torch-2.13", "tvm-0.27", "tilelang-0.1.8", "tilelang-0.1.15", "triton-3.7", "cpp", "fastest", "cute",
        "pallas-0.10",
    )}  # fmt: skip
    assert {found[what].status for what in (*environments, "image", "Python", "g++")} == {"good"}
    assert not found.keys() & {"uv", "Docker", "package index", "CA bundle", "disk", "build folder", "hipcc"}
    seen = {p.platform: p for p in prospects(matrix, list(found.values()), Machine(()), "cuda")}
    assert seen["cuda"].reaches == "compiled"
    assert seen["cuda"].lacking == f"a GPU of {', '.join(matrix.platforms['cuda'].targets)}"
    for name in ("cpu-llvm", "rocm"):
        assert seen[name].lacking == "it belongs to another image: this is cuda's"
    assert seen["metal"].lacking == "it belongs to no image, and runs outside of all"


@pytest.mark.parametrize(("platform", "status"), [("intel", "absent"), ("cuda", "broken")])
def test_a_compiler_of_the_cpu_is_expected_in_images_whose_jobs_launch_kernels(
    image, tmp_path, monkeypatch, platform, status
):
    monkeypatch.setenv(doctor.PLATFORM, platform)
    monkeypatch.setenv("PATH", only(tmp_path / "bin", "sh"))
    assert image()["g++"].status == status


@pytest.mark.slow
def test_an_image_of_older_locks_or_without_an_environment_is_to_be_built_anew(image, matrix, tmp_path, monkeypatch):
    with (tmp_path / "ci/locks/tvm-0.27.txt").open("a") as lock:
        lock.write("packaging==1.0\n")
    found = image()
    other = found["environment tvm-0.27"]
    assert other.status == "broken"
    assert other.text.startswith("not what tvm-0.27.txt names: packaging==1.0 (it has ")
    assert found["environment triton-3.7"].status == "good"
    cuda = next(p for p in prospects(matrix, list(found.values()), Machine(()), "cuda") if p.platform == "cuda")
    assert (cuda.reaches, cuda.lacking) == ("planned", "environment tvm-0.27 first")
    assert cuda.command == "build the image anew, outside: `kernel-matrix run --platform cuda`"

    monkeypatch.setattr(places, "python_of", lambda lock: f"/nowhere/{lock.stem}/bin/python")
    assert image()["environment triton-3.7"].text == "/nowhere/triton-3.7/bin/python is not in this image"
    monkeypatch.setattr(places, "python_of", lambda lock: "/bin/false")
    assert "/bin/false does not run" in image()["environment triton-3.7"].text


@pytest.mark.slow
def test_in_an_image_a_gpu_that_was_not_given_to_the_container_is_no_matter_of_drivers(image, monkeypatch):
    monkeypatch.setattr(nvidia, "is_on_pci_bus", lambda vendor: vendor == "0x10de")
    found = image()["NVIDIA driver"]
    assert (found.status, found.remedy) == ("broken", "start the container with --gpus all")


def test_an_image_of_a_platform_that_the_matrix_lacks_is_told(image, matrix, monkeypatch):
    monkeypatch.setenv(doctor.PLATFORM, "cudda")
    found = image()
    assert found["image"].text == f"{doctor.PLATFORM}=cudda, and matrix.yaml has no such platform"


def test_a_gpu_without_a_driver_is_found_on_the_pci_bus(tmp_path):
    for name, vendor, kind in (("a", "0x10de", "0x030200"), ("b", "0x1002", "0x060000")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(vendor + "\n")
        (tmp_path / name / "class").write_text(kind + "\n")
    assert is_on_pci_bus("0x10de", tmp_path)
    assert not is_on_pci_bus("0x1002", tmp_path), "a bridge is no GPU"


@pytest.mark.slow
def test_the_command_ends_with_1_when_something_is_broken(monkeypatch):
    monkeypatch.setenv("PIP_CERT", "/nowhere.pem")
    done = harness("doctor")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "✗ CA bundle: PIP_CERT=/nowhere.pem" in done.stdout
    assert "cpu-llvm: up to" in done.stdout
