"""The command that installs more of the harness names what its reader can install, wherever this one came from."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from common import ROOT
from packaging.requirements import Requirement

from kernel_matrix.base import installation
from kernel_matrix.base.commands import here

GIT = {"url": "https://host.example/k", "vcs_info": {"vcs": "git", "commit_id": "abc"}}
CLONE = {"url": f"file://{ROOT}", "dir_info": {}}


@pytest.fixture
def came(tmp_path, monkeypatch):
    """Say where the harness came from, in an environment with pip, and return the environment's folder."""

    def make(told: dict | None, *, pip: str = "on PATH", folder: str = "env") -> Path:
        text = json.dumps(told) if told is not None else None
        distribution = SimpleNamespace(read_text=lambda _: text, version="0.9")
        monkeypatch.setattr(installation.importlib.metadata, "distribution", lambda _: distribution)
        programs = tmp_path / folder / "bin"
        programs.mkdir(parents=True, exist_ok=True)
        for name in ("python", "uv", *(["pip"] if pip == "on PATH" else [])):
            (programs / name).write_text("#!/bin/sh\n")
            (programs / name).chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(programs / "python"))
        monkeypatch.setattr(sys, "prefix", str(tmp_path / folder))
        monkeypatch.setattr(installation.importlib.util, "find_spec", lambda _: pip == "a module" or None)
        monkeypatch.setenv("PATH", str(programs) if pip == "on PATH" else "/nowhere")
        for name in ("PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        return programs.parent

    return make


def test_every_command_is_imported_where_pytest_is_not_installed():
    """The workflow that init writes installs the harness alone: pytest is in the environments of its jobs."""
    code = "import sys, importlib; sys.modules['pytest'] = None\n"
    code += "from kernel_matrix import cli\nfor name in cli.commands().values(): importlib.import_module(name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def archive(tmp_path: Path, *names: str) -> str:
    for name in names:
        (tmp_path / name).touch()
    return f"file://{tmp_path}/{names[0]}"


@pytest.mark.parametrize(
    ("told", "own", "emulator"),
    [
        (None, "kernel-matrix[emulate]==0.9", ""),
        ({}, "kernel-matrix[emulate]==0.9", ""),
        (
            GIT,
            "kernel-matrix[emulate] @ git+https://host.example/k@abc",
            "gpu-emulators @ git+https://host.example/k@abc#subdirectory=src/gpu_emulators",
        ),
        (
            {**GIT, "url": "ssh://git@host.example/k"},
            "kernel-matrix[emulate] @ git+ssh://git@host.example/k@abc",
            "gpu-emulators @ git+ssh://git@host.example/k@abc#subdirectory=src/gpu_emulators",
        ),
        (CLONE, f"{ROOT}[emulate]", str(ROOT / "src" / "gpu_emulators")),
        ({**CLONE, "dir_info": {"editable": True}}, f"{ROOT}[emulate]", str(ROOT / "src" / "gpu_emulators")),
        (
            {"url": "https://host.example/k/abc.zip", "archive_info": {}},
            "kernel-matrix[emulate] @ https://host.example/k/abc.zip",
            "gpu-emulators @ https://host.example/k/abc.zip#subdirectory=src/gpu_emulators",
        ),
        (
            {"url": "https://host.example/kernel_matrix-0.9-py3-none-any.whl", "archive_info": {}},
            "kernel-matrix[emulate] @ https://host.example/kernel_matrix-0.9-py3-none-any.whl",
            "gpu-emulators @ https://host.example/gpu_emulators-0.9-py3-none-any.whl",
        ),
    ],
)
def test_what_is_installed_comes_from_where_the_harness_came_from(came, told, own, emulator):
    came(told)
    words = shlex.split(installation.installing("emulate"))
    assert words[:3] == ["pip", "install", own]
    assert words[3:4] == ([emulator] if emulator else [])
    assert shlex.split(installation.installing("fuzz")) == ["pip", "install", own.replace("emulate", "fuzz")]


def test_a_wheel_on_the_disk_names_the_one_next_to_it_and_none_that_is_not_there(came, tmp_path):
    url = archive(tmp_path, "kernel_matrix-0.9-py3-none-any.whl")
    came({"url": url, "archive_info": {}})
    assert installation.installing("fuzz") == f"pip install 'kernel-matrix[fuzz] @ {url}'"
    in_a_clone = "pip install '.[emulate]' ./src/gpu_emulators, in a clone of kernel-matrix"
    assert installation.installing("emulate") == in_a_clone
    archive(tmp_path, "gpu_emulators-0.9-py3-none-any.whl")
    words = shlex.split(installation.installing("emulate"))
    assert words[3] == f"gpu-emulators @ file://{tmp_path}/gpu_emulators-0.9-py3-none-any.whl"


@pytest.mark.parametrize("url", ["file:///nowhere/clone", "file:///tmp"])
def test_a_folder_that_is_gone_or_has_other_files_is_not_named(came, url):
    came({"url": url, "dir_info": {}})
    assert installation.installing("fuzz") == "pip install '.[fuzz]', in a clone of kernel-matrix"


def test_a_checkout_on_the_import_path_names_its_own_folders(came, monkeypatch):
    came(None)

    def absent(_: str) -> None:
        raise installation.importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(installation.importlib.metadata, "distribution", absent)
    assert installation.installing("containers") == f"pip install '{ROOT}[containers]'"


@pytest.mark.parametrize("folder", ["env", "an env"])
def test_the_command_installs_into_the_environment_of_the_harness_with_and_without_pip(came, folder):
    made = came(None, pip="a module", folder=folder)
    words = shlex.split(installation.installing("fuzz"))
    assert words == [str(made / "bin" / "python"), "-m", "pip", "install", "kernel-matrix[fuzz]==0.9"]
    came(None, pip="none", folder=folder)
    words = shlex.split(installation.installing("fuzz"))
    python = str(made / "bin" / "python")
    assert words == [str(made / "bin" / "uv"), "pip", "install", "--python", python, "kernel-matrix[fuzz]==0.9"]


def test_uvx_is_started_again_with_what_is_lacking(came, tmp_path, monkeypatch):
    (tmp_path / "CACHEDIR.TAG").touch()
    came(GIT, folder="archive-v0/a1")
    monkeypatch.setattr(sys, "argv", ["kernel-matrix", "init", "--root", "a b"])
    more = "kernel-matrix[fuzz] @ git+https://host.example/k@abc"
    source = "git+https://host.example/k@abc"
    words = ["uvx", "--from", source, "--with", more, "kernel-matrix", "init", "--root", "a b"]
    assert shlex.split(installation.installing("fuzz")) == words


def test_uv_is_printed_with_the_settings_of_pip_that_the_harness_gives_it(came, monkeypatch):
    came(None)
    for name in ("UV_FIND_LINKS", "UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "https://me:secret@host.example/simple")
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels /more")
    monkeypatch.setenv("PIP_CERT", "/a.pem")
    monkeypatch.setenv("SSL_CERT_FILE", "/b.pem")
    line = installation.into(".venv", "-r", "ci/locks/a b.txt")
    start = 'UV_FIND_LINKS=/wheels,/more UV_DEFAULT_INDEX="$PIP_INDEX_URL" uv pip install --python .venv'
    assert line == f"{start} -r 'ci/locks/a b.txt'"
    monkeypatch.setenv("UV_FIND_LINKS", "/own")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://host.example/own")
    assert installation.into(".venv", "a").startswith("uv pip install")


def test_what_runs_as_a_module_is_started_as_a_module(monkeypatch):
    monkeypatch.delenv("KERNEL_MATRIX_START", raising=False)
    monkeypatch.setattr(sys, "argv", ["/a b/kernel_matrix/__main__.py", "init"])
    assert here("next: `kernel-matrix matrix`") == f"next: {shlex.quote(sys.executable)} -m kernel_matrix matrix"


@pytest.mark.parametrize(("library", "extra"), installation._EXTRAS.items())
def test_a_library_that_is_lacking_is_told_with_the_extra_that_brings_it(came, library, extra):
    came(GIT)
    text = installation.lacking(ModuleNotFoundError(f"No module named '{library}.part'", name=f"{library}.part"))
    assert (
        text == f"this needs the library {library}, which the extra '{extra}' brings: {installation.installing(extra)}"
    )
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert library in {Requirement(one).name for one in extras[extra]}
    assert installation.lacking(ModuleNotFoundError("No module named 'torch'", name="torch")) == ""
