"""The workflow that ``init`` writes, played by act exactly as it is written: only the address of the harness is filled in.

Its own Install line installs all that there is, into an environment that holds pip alone.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from common import ROOT
from plays import HERE, commit, git, repository
from test_act import ACT, Played, play

from kernel_matrix.run.environments import venv

PLACEHOLDER = "git+https://github.com/OWNER/kernel-matrix@COMMIT"
WORKFLOW = Path(".github", "workflows", "kernel-matrix.yml")
FILES = {
    "pyproject.toml": '[project]\nname = "tinyk"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["numpy>=2"]\n',
    "tinyk/__init__.py": "import numpy as np\n\n\ndef twice(x):\n    return np.add(x, x)\n",
    "tests/test_twice.py": "from tinyk import twice\n\n\ndef test_of_two():\n    assert twice(2) == 4\n\n\n"
    "def test_of_none():\n    assert twice(0) == 0\n",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.environments,
    pytest.mark.skipif(ACT is None, reason="act is not here; this installs it: ci/nox -s tests -- tests/ci"),
]


def package(folder: Path) -> Path:
    """Make a repository with a package and two tests, and let ``init`` write what it needs."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "--quiet")
    git(folder, "remote", "add", "origin", "https://github.com/somebody/tinyk.git")
    commit(folder)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "kernel_matrix", "init", "--root", str(folder), "--no-run"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    commit(folder)
    return folder


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Callable[..., Played]:
    """Return what plays an event of a repository with the workflow of ``init``, after a change of its files."""
    folder = tmp_path_factory.mktemp("written")
    harness = repository(folder / "harness", HERE)
    address = f"git+file://{harness}@{git(harness, 'rev-parse', 'HEAD')}"
    venv.uv("venv", "--quiet", "--seed", "--python", sys.executable, str(folder / "env"))
    first = package(folder / "first")

    def played(name: str, event: str, change: dict[str, str], payload: dict, programs: Path | None = None) -> Played:
        root = folder / name
        git(folder, "clone", "--quiet", str(first), str(root))
        text = (root / WORKFLOW).read_text()
        assert PLACEHOLDER in text
        for file, content in {str(WORKFLOW): text.replace(PLACEHOLDER, address), **change}.items():
            (root / file).write_text(content)
        payload = json.loads(json.dumps(payload).replace("HEAD", commit(root)))
        path = f"{programs or folder / 'env' / 'bin'}:{folder / f'{name}-run' / 'bin'}:{os.environ['PATH']}"
        return play(root, event, payload=payload, PATH=path, ACT_VENV="", VIRTUAL_ENV="")

    return played


def of_fork() -> dict:
    """Return what GitHub says of a pull request from somebody else's repository."""
    head = {"sha": "HEAD", "ref": "change", "repo": {"full_name": "stranger/tinyk"}}
    base = {"sha": "HEAD", "ref": "main", "repo": {"full_name": "somebody/tinyk"}}
    return {"action": "opened", "pull_request": {"number": 7, "user": {"type": "User"}, "head": head, "base": base}}


def steps(run: Played) -> dict[str, str]:
    """Return how each step of the job ended."""
    return {
        entry["step"]: entry["stepResult"]
        for entry in run.entries
        if "stepResult" in entry and entry.get("stage") == "Main"
    }


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        ("push", {"ref": "refs/heads/main"}),
        pytest.param("pull_request", of_fork(), marks=pytest.mark.nightly),  # by day the next test opens one
    ],
)
def test_the_written_workflow_is_green_and_keeps_its_page(start, event, payload):
    run = start(event, event, {}, payload)
    assert run.results == {"matrix": "success"}, run.said
    assert {steps(run)[name] for name in ("Install", "Run", "Report", "Summary")} == {"success"}
    states = {cell["id"]: cell["state"] for cell in run.page()["cells"]}
    assert set(states.values()) == {"held"}
    assert any("test_twice" in cell for cell in states)
    for name in ("index.html", "badge.svg", "summary.md", "badges/cpu.x86-64-v3.python.svg"):
        assert (run.kept("site") / name).read_text().strip(), name


def test_a_red_test_is_named_on_its_line_and_the_page_is_kept(start):
    wrong = FILES["tests/test_twice.py"].replace("== 4", "== 5")
    run = start("red", "pull_request", {"tests/test_twice.py": wrong}, of_fork())
    assert run.results == {"matrix": "failure"}, run.said
    ended = steps(run)
    assert (ended["Run"], ended["Report"], ended["Summary"]) == ("failure", "failure", "success")
    assert re.search(r"::error file=tests/test_twice.py,line=5,", run.said), run.said
    assert (run.kept("site") / "index.html").exists()


@pytest.mark.nightly
def test_in_a_pod_whose_image_has_all_the_workflow_installs_nothing(start, tmp_path):
    program = tmp_path / "kernel-matrix"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT / "src"} exec {sys.executable} -m kernel_matrix "$@"\n')
    program.chmod(0o755)
    text = (package(tmp_path / "written") / WORKFLOW).read_text()
    before, after = text.index("      - uses: actions/setup-python"), text.index("      - name: Run")
    run_line = "run: kernel-matrix run --platform cpu"
    assert run_line in text
    text = (text[:before] + text[after:]).replace(run_line, f"{run_line} --executor current")
    run = start("pod", "push", {str(WORKFLOW): text}, {"ref": "refs/heads/main"}, tmp_path)
    assert run.results == {"matrix": "success"}, run.said
    assert "executor current (as asked)" in run.said
    assert "Install" not in steps(run)
    assert {cell["state"] for cell in run.page()["cells"]} == {"held"}


def test_a_run_that_cannot_begin_is_red_and_hides_nothing(start):
    run = start("broken", "push", {"matrix.yaml": "platforms: [\n"}, {"ref": "refs/heads/main"})
    assert run.results == {"matrix": "failure"}, run.said
    assert steps(run)["Run"] == "failure"
    assert not run.kept("site").exists()
