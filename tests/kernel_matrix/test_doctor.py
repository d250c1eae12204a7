"""The doctor is right about this machine, and about one from which a piece was taken away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from kernel_matrix import doctor
from kernel_matrix.doctor import Finding, examine, prospects
from kernel_matrix.machine import Device, Machine, detect


@pytest.fixture
def look(tmp_path, monkeypatch):
    """Examine this machine; what a test took away before is away."""

    def found() -> dict[str, Finding]:
        return {finding.what: finding for finding in examine(tmp_path / "build", detect())}

    return found


def only(folder: Path, *programs: str) -> str:
    """A PATH that has these programs and no others."""
    import shutil

    folder.mkdir()
    for program in programs:
        if path := shutil.which(program):
            (folder / program).symlink_to(path)
    return str(folder)


def test_this_machine_is_whole_enough_to_test_on(look):
    found = look()
    for what in ("Python", "uv", "g++", "build folder", "home", "temporary folder", "CA bundle", "package index"):
        assert found[what].health == "good", found[what]
    assert found["cpu device"].said.endswith("x86-64")


def test_without_a_compiler_the_cpu_platform_says_what_to_install(look, matrix, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", only(tmp_path / "bin", "uv"))
    monkeypatch.delenv("CXX", raising=False)
    found = look()
    assert found["g++"].health == "broken"
    assert found["g++"].remedy == "sudo apt-get install g++"
    cpu = next(p for p in prospects(matrix, list(found.values()), detect()) if p.platform == "cpu-llvm")
    assert (cpu.reaches, cpu.command) == ("planned", "sudo apt-get install g++")


def test_a_compiler_that_does_not_compile_is_broken_with_its_own_words(look, tmp_path, monkeypatch):
    fake = tmp_path / "cxx"
    fake.write_text("#!/bin/sh\necho 'cannot execute cc1plus' >&2; exit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("CXX", str(fake))
    assert "cannot execute cc1plus" in look()["g++"].said


def test_without_nvcc_and_hipcc_it_says_what_that_costs(look, matrix, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", only(tmp_path / "bin", "g++", "as", "ld"))
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    monkeypatch.setenv("ROCM_PATH", "/nowhere")
    found = look()
    assert found["nvcc"].health == found["hipcc"].health == "absent"
    assert "bring their own" in found["nvcc"].said
    without_gpu = Machine((Device("cpu", "test", ("x86-64-v3",)),))
    reaches = {p.platform: p.reaches for p in prospects(matrix, list(found.values()), without_gpu)}
    assert reaches == {
        "cpu-llvm": "ran",
        "cuda": "compiled",
        "rocm": "lowered",
        "opencl": "emulated",
        "metal": "lowered",
    }


def test_without_docker_it_says_so_and_that_the_rest_does_without(look, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    found = look()["Docker"]
    assert found.health == "absent"
    assert "/nowhere.sock" in found.said


def test_a_socket_that_nobody_answers_is_broken(look, tmp_path, monkeypatch):
    import socket

    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))  # bound, and never listening
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    assert look()["Docker"].health == "broken"


def test_a_ca_bundle_that_is_not_there_is_named_with_its_variable(look, monkeypatch):
    monkeypatch.setenv("PIP_CERT", "/nowhere.pem")
    found = look()["CA bundle"]
    assert found.health == "broken"
    assert "PIP_CERT=/nowhere.pem" in found.said


def test_an_index_that_cannot_be_reached_is_diagnosed(look, monkeypatch):
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.delenv("UV_INDEX", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    found = look()["package index"]
    assert found.health == "broken"
    assert "Nobody listens" in found.said


def test_a_home_that_cannot_be_written_to_is_named_with_a_way_out(look, monkeypatch):
    monkeypatch.setenv("HOME", "/proc")  # read-only even for root
    found = look()["home"]
    assert found.health == "broken"
    assert found.remedy.startswith("export HOME=")


def test_a_full_disk_and_an_old_python_come_first(look, matrix, monkeypatch):
    monkeypatch.setattr(doctor.sys, "version_info", (3, 9, 1))
    found = list(look().values())
    assert next(f for f in found if f.what == "Python").health == "broken"
    assert {(p.reaches, p.lacking) for p in prospects(matrix, found, detect())} == {("planned", "Python first")}
    usage = type("usage", (), {"free": 1 << 30})
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: usage)
    assert look()["disk"].health == "broken"


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


def test_a_gpu_without_a_driver_is_found_on_the_pci_bus(tmp_path):
    for name, vendor, kind in (("a", "0x10de", "0x030200"), ("b", "0x1002", "0x060000")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(vendor + "\n")
        (tmp_path / name / "class").write_text(kind + "\n")
    assert doctor._pci_display("0x10de", tmp_path)
    assert not doctor._pci_display("0x1002", tmp_path), "a bridge is no GPU"


def test_the_command_ends_with_1_when_something_is_broken(monkeypatch):
    command = [sys.executable, "-m", "kernel_matrix", "doctor"]
    monkeypatch.setenv("PIP_CERT", "/nowhere.pem")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "✗ CA bundle: PIP_CERT=/nowhere.pem" in done.stdout
    assert "cpu-llvm: up to" in done.stdout
