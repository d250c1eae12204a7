"""Lines in a terminal name the way in which the harness was started there."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import kernel_matrix
from kernel_matrix.cli import started
from kernel_matrix.config.commands import spelled

LINE = "all tests: `kernel-matrix matrix --executor venv`"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Make an environment with the harness's script, from which this process is said to come, and return its folder."""

    def make(folder: str, *, settings: str = "home = /usr/bin\n") -> Path:
        script = tmp_path / folder / "bin" / "kernel-matrix"
        script.parent.mkdir(parents=True)
        script.write_text("#!/bin/sh\n")
        script.chmod(0o755)
        (tmp_path / folder / "pyvenv.cfg").write_text(settings)
        monkeypatch.setattr(sys, "prefix", str(tmp_path / folder))
        monkeypatch.setattr(sys, "argv", [str(script), "init"])
        monkeypatch.setenv("PATH", str(script.parent))
        return tmp_path / folder

    return make


@pytest.fixture
def of_uvx(tmp_path, installed):
    (tmp_path / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n")
    return installed("archive-v0/a1b2", settings="home = /usr/bin\nuv = 0.13.8\n")


def comes_from(monkeypatch, text):
    monkeypatch.setattr(started.importlib.metadata, "distribution", lambda _: SimpleNamespace(read_text=lambda _: text))


def test_a_script_that_the_shell_finds_is_named_by_its_name(installed):
    installed("here")
    assert spelled(started.start_here(), LINE) == "all tests: kernel-matrix matrix --executor venv"


def test_a_script_that_the_shell_does_not_find_is_named_by_its_path(installed, monkeypatch):
    script = installed("with a blank") / "bin" / "kernel-matrix"
    monkeypatch.setenv("PATH", "/nowhere")
    assert spelled(started.start_here(), LINE) == f"all tests: '{script}' matrix --executor venv"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (None, "uvx kernel-matrix"),
        ('{"url": "file:///a%20folder/k.whl", "archive_info": {}}', "uvx --from '/a folder/k.whl' kernel-matrix"),
        (
            '{"url": "https://host.example/k", "vcs_info": {"vcs": "git", "commit_id": "abc"}}',
            "uvx --from git+https://host.example/k@abc kernel-matrix",
        ),
        ('{"url": "https://host.example/k.whl"}', "uvx --from https://host.example/k.whl kernel-matrix"),
    ],
)
def test_uvx_is_named_with_what_it_was_given(of_uvx, monkeypatch, told, words):
    comes_from(monkeypatch, told)
    assert spelled(started.start_here(), LINE) == f"all tests: {words} matrix --executor venv"


def test_an_environment_of_uv_that_is_no_cache_s_is_not_uvx(installed):
    installed("venv", settings="home = /usr/bin\nuv = 0.13.8\n")
    assert started.start_here().command.startswith("kernel-matrix ")


def test_a_module_is_named_where_python_finds_it_alone(monkeypatch, tmp_path):
    package = Path(kernel_matrix.__file__).parent
    monkeypatch.setattr(sys, "argv", [str(package / "__main__.py"), "init"])
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert started.start_here().command.startswith("kernel-matrix "), "its folder is named by a variable alone"
    monkeypatch.setattr(sys, "prefix", str(package.parent))
    assert started.start_here().command.startswith(f"{sys.executable} -m kernel_matrix ")
