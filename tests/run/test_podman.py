"""Podman without a daemon: which engine is reached, a service that ends with its process, and the user of a job."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from common import ROOT

from kernel_matrix.run.container import engine, podman
from kernel_matrix.run.container.sandbox import Sandbox
from kernel_matrix.run.executors import UnavailableError

# It listens as podman would, and notes its process.
_SERVICE = """#!/usr/bin/env python3
import os, pathlib, socket, sys, time
assert sys.argv[1:4] == ["system", "service", "--time=0"], sys.argv
pathlib.Path(os.environ["NOTE"]).write_text(str(os.getpid()))
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[4].removeprefix("unix://"))
listening.listen()
time.sleep(60)
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Return a function that makes podman this program, and the only one beside the shell's."""
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("NOTE", str(tmp_path / "note"))
    monkeypatch.setattr(engine, "SOCKET", f"unix://{tmp_path}/docker.sock")

    def give(text: str) -> Path:
        program = tmp_path / "bin" / "podman"
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        return program

    return give


def is_alive(note: Path) -> bool:
    status = Path("/proc", note.read_text(), "status")
    return status.exists() and "\nState:\tZ" not in status.read_text()


def test_a_service_of_podman_ends_with_its_process_however_that_ends(tmp_path, programs):
    programs(_SERVICE)
    code = "import os; from kernel_matrix.run.container import podman; "
    code += "print(podman.service(), flush=True); os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
                          capture_output=True, text=True)  # fmt: skip
    assert done.stdout.startswith("unix://"), done.stderr
    until = time.monotonic() + 30
    while is_alive(tmp_path / "note"):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_service_that_does_not_start_says_podman_s_words(programs):
    programs("#!/bin/sh\necho 'Error: cannot set up namespace' >&2\nexit 125\n")
    began = time.monotonic()
    with pytest.raises(UnavailableError, match="does not answer: Error: cannot set up namespace"):
        podman.service.__wrapped__()
    assert time.monotonic() - began < podman._SECONDS / 2, "it ended at once, and nobody waits for its answer"


@pytest.mark.parametrize(
    ("docker", "user", "start", "found"),
    [
        ("file", True, True, "docker.sock"),
        ("", True, True, "podman.sock"),
        ("", True, False, "podman.sock"),
        ("", False, True, "started"),
        ("", False, False, "docker.sock"),
    ],
    ids=["Docker's first", "the user's", "the user's, unasked", "none: it is started", "none, unasked"],
)
def test_docker_s_engine_comes_before_the_user_s_podman_which_is_started_if_asked(
    tmp_path, programs, monkeypatch, docker, user, start, found
):
    programs("")
    monkeypatch.setattr(podman, "service", lambda: "unix:///started")
    (tmp_path / "run" / "podman").mkdir(parents=True)
    if docker:
        (tmp_path / "docker.sock").touch()
    if user:
        (tmp_path / "run" / "podman" / "podman.sock").touch()
    with pytest.raises(UnavailableError, match=found):
        engine.connect(start=start)


def test_a_job_of_a_rootless_engine_is_its_root_who_is_this_user():
    assert Sandbox(None, "", 1, rootless=True).user == (0, 0)
    assert Sandbox(None, "", 1).user == ((os.getuid(), os.getgid()) if os.getuid() else (1000, 1000))


@pytest.mark.parametrize(
    ("facts", "rootless"),
    [
        ({"Rootless": True, "SecurityOptions": ["name=seccomp"]}, True),
        ({"SecurityOptions": ["name=seccomp", "name=rootless"]}, True),
        ({"SecurityOptions": None}, False),
        ({"Rootless": False, "SecurityOptions": []}, False),
    ],
)
def test_each_engine_says_in_its_own_words_that_it_is_rootless(facts, rootless):
    assert engine._is_rootless(facts) is rootless
