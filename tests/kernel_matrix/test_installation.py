"""The command that installs more of the harness names what its reader can install, wherever this one came from."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import ROOT

from kernel_matrix import plugins
from kernel_matrix.base import installation
from kernel_matrix.base.commands import here
from kernel_matrix.base.errors import UserError

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
    ("told", "words"),
    [
        (None, ["kernel-matrix-adopt==0.9"]),
        ({}, ["kernel-matrix-adopt==0.9"]),
        (GIT, ["kernel-matrix-adopt @ git+https://host.example/k@abc#subdirectory=src/kernel_matrix_adopt"]),
        (
            {**GIT, "url": "ssh://git@host.example/k"},
            ["kernel-matrix-adopt @ git+ssh://git@host.example/k@abc#subdirectory=src/kernel_matrix_adopt"],
        ),
        (CLONE, [str(ROOT), str(ROOT / "src" / "kernel_matrix_adopt")]),
        ({**CLONE, "dir_info": {"editable": True}}, [str(ROOT), str(ROOT / "src" / "kernel_matrix_adopt")]),
        (
            {"url": "https://host.example/k/abc.zip", "archive_info": {}},
            ["kernel-matrix-adopt @ https://host.example/k/abc.zip#subdirectory=src/kernel_matrix_adopt"],
        ),
        (
            {"url": "https://host.example/kernel_matrix-0.9-py3-none-any.whl", "archive_info": {}},
            ["kernel-matrix-adopt @ https://host.example/kernel_matrix_adopt-0.9-py3-none-any.whl"],
        ),
        (
            {"url": "https://host.example/kernel_matrix-0.9.tar.gz", "archive_info": {}},
            ["kernel-matrix-adopt @ https://host.example/kernel_matrix_adopt-0.9.tar.gz"],
        ),
    ],
)
def test_what_is_installed_comes_from_where_the_harness_came_from(came, told, words):
    came(told)
    assert shlex.split(plugins.installing("adopt")) == ["pip", "install", *words]


def test_a_wheel_on_the_disk_names_the_one_next_to_it_and_none_that_is_not_there(came, tmp_path):
    url = archive(tmp_path, "kernel_matrix-0.9-py3-none-any.whl", "kernel_matrix_adopt-0.9-py3-none-any.whl")
    came({"url": url, "archive_info": {}})
    words = shlex.split(plugins.installing("adopt"))
    assert words[2:] == [f"kernel-matrix-adopt @ file://{tmp_path}/kernel_matrix_adopt-0.9-py3-none-any.whl"]
    assert plugins.installing("send") == "pip install . ./src/kernel_matrix_send, in a clone of kernel-matrix"


@pytest.mark.parametrize("url", ["file:///nowhere/clone", "file:///tmp"])
def test_a_folder_that_is_gone_or_has_other_files_is_not_named(came, url):
    came({"url": url, "dir_info": {}})
    assert plugins.installing("adopt") == "pip install . ./src/kernel_matrix_adopt, in a clone of kernel-matrix"


def test_a_checkout_on_the_import_path_names_its_own_folders(came, monkeypatch):
    came(None)

    def absent(_: str) -> None:
        raise installation.importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(installation.importlib.metadata, "distribution", absent)
    assert plugins.installing("ci") == f"pip install {ROOT} {ROOT / 'src' / 'kernel_matrix_ci'}"


@pytest.mark.parametrize("folder", ["env", "an env"])
def test_the_command_installs_into_the_environment_of_the_harness_with_and_without_pip(came, folder):
    made = came(None, pip="a module", folder=folder)
    words = shlex.split(plugins.installing("adopt"))
    assert words == [str(made / "bin" / "python"), "-m", "pip", "install", "kernel-matrix-adopt==0.9"]
    came(None, pip="none", folder=folder)
    words = shlex.split(plugins.installing("adopt"))
    python = str(made / "bin" / "python")
    assert words == [str(made / "bin" / "uv"), "pip", "install", "--python", python, "kernel-matrix-adopt==0.9"]


def test_uvx_is_started_again_with_what_is_lacking(came, tmp_path, monkeypatch):
    (tmp_path / "CACHEDIR.TAG").touch()
    came(GIT, folder="archive-v0/a1")
    monkeypatch.setattr(sys, "argv", ["kernel-matrix", "init", "--root", "a b"])
    more = "kernel-matrix-adopt @ git+https://host.example/k@abc#subdirectory=src/kernel_matrix_adopt"
    source = "git+https://host.example/k@abc"
    words = ["uvx", "--from", source, "--with", more, "kernel-matrix", "init", "--root", "a b"]
    assert shlex.split(plugins.installing("adopt")) == words


def test_a_page_names_no_folder_of_this_machine(came):
    came(CLONE)
    text = installation.elsewhere("kernel_matrix_probes")
    assert text == "pip install . ./src/kernel_matrix_probes, in a clone of kernel-matrix"
    came(GIT)
    assert "git+https://host.example/k@abc#subdirectory=src/kernel_matrix_probes" in installation.elsewhere(
        "kernel_matrix_probes"
    )


def test_uv_is_printed_with_the_settings_of_pip_that_the_harness_gives_it(came, monkeypatch):
    came(None)
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


def test_each_part_that_is_lacking_is_told_with_a_command(came, monkeypatch):
    came(GIT)
    monkeypatch.setattr(plugins, "part", lambda name: None)
    for extra in dict.fromkeys(plugins.EXTRAS.values()):
        with pytest.raises(UserError) as error:
            plugins.needed("a part", extra)
        command = shlex.split(str(error.value).rpartition("not installed: ")[2])
        assert command[:2] == ["pip", "install"]
        part = command[2].rpartition("#subdirectory=")[2]
        assert (ROOT / part / "pyproject.toml").is_file()
    for command, extra in plugins.EXTRAS.items():
        assert str(plugins.not_here(command)).endswith(plugins.installing(extra))
