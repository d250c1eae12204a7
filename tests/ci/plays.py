"""Provide what the plays of several CI services share: a small repository with this checkout's harness and workflows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from common import ROOT
from ruamel.yaml import YAML

from kernel_matrix.vendors.machine import detect

PROGRAMS = Path(sys.executable).parent
HARNESS = (
    *(".github", ".gitignore", "ci", "probes", "src/kernel_matrix*"),
    *("action.yml", "pyproject.toml", "README.md", "LICENSE"),
)
HOSTED = "ubuntu-24.04"
TARGET = detect().devices[0].targets[-1]
PLATFORM = f"device: cpu, targets: [{TARGET}], machines: [{TARGET}], toolchains: [good]"
HERE = f"  here: {{ title: hosted, runner: [{HOSTED}], {PLATFORM} }}\n"
ROOM = f"  room: {{ title: the other room, runner: [self-hosted, linux, room], {PLATFORM} }}\n"
SUITE = """package: { name: sums, suite: tests }
limits: { case: 60, job: 300 }
toolchains:
  good: { lock: lock.txt }
"""
STATES = {"operators": "pass", "suite": "held"}  # of a cell of each kind of package
CI = f"""ci: {{ hosted: {HOSTED}, queue_minutes: 0.2, sentinels: ["*"],
  events: {{ main: {{ tier: quick }}, nightly: {{ tier: quick }}, pull_request: {{ tier: quick }} }} }}
"""


def git(folder: Path, *words: str) -> str:
    """Run git in a folder, as somebody, and return what it prints."""
    someone = ("-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "init.defaultBranch=main")
    command = ["git", "-C", str(folder), *someone, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def commit(folder: Path, *, force: bool = False) -> str:
    """Commit all files, with those that git ignores if forced, and return the commit's id."""
    git(folder, "add", "--all", *(["--force"] if force else []))
    git(folder, "commit", "--quiet", "--message", "a change")
    return git(folder, "rev-parse", "HEAD")


def repository(
    folder: Path, *platforms: str, name: str = "owner/kernel-matrix", harness: bool = True, kind: str = "operators"
) -> Path:
    """Make a repository of a package for these platforms, with this checkout's harness and workflows.

    It is the doubles' package, or with the kind "suite" one that has only tests of its own.
    """
    text = "".join(("platforms:\n", *platforms, CI))
    doubles = ROOT / "tests" / "support" / "doubles"
    if kind == "suite":
        (folder / "tests").mkdir(parents=True)
        shutil.copy(doubles / "lock.txt", folder)
        (folder / "matrix.yaml").write_text(f"{SUITE}{text}")
        (folder / "tests" / "pytest.ini").write_text("[pytest]\n")  # those of pyproject.toml are of the harness's tests
        (folder / "tests" / "test_sums.py").write_text("def test_one(): pass\n\n\ndef test_two(): pass\n")
    else:
        shutil.copytree(doubles, folder)
        matrix = folder / "matrix.yaml"
        matrix.write_text(re.sub(r"(?ms)^platforms:\n.*?(?=^ops:)", lambda _: text, matrix.read_text()))
    listed = (
        git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", *HARNESS).splitlines() if harness else []
    )
    for file in (file for file in listed if (ROOT / file).is_file()):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, folder / file)
    git(folder, "init", "--quiet")
    git(folder, "remote", "add", "origin", f"https://github.com/{name}.git")
    commit(folder)
    return folder


def let_die(root: Path, words: str) -> Path:
    """Let the machine of each row die whose name begins with these words."""
    script = root / "ci" / "kernel-matrix"
    dies = f'case "$*" in *"--row {words}"*) kill -9 $$ ;; esac\nexec '
    script.write_text(f"{script.read_text().rstrip()}\n".replace("exec ", dies))
    commit(root)
    return root


def documented(heading: str) -> dict[str, Any]:
    """Return the example below a heading of docs/runners.md."""
    below = (ROOT / "docs" / "runners.md").read_text(encoding="utf-8").partition(f"{heading}\n")[2]
    return YAML(typ="safe").load(below.partition("```yaml\n")[2].partition("```")[0])


def variables_of(*folders: Path) -> dict[str, str]:
    """Return the variables of a service and its jobs, with folders of programs in front of this machine's.

    They have no container engine, and fetch packages as this test may.
    """
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GITHUB_", "RUNNER_", "PYTHON", "CI_", "BUILDKITE"))
    }
    uv = subprocess.run([PROGRAMS / "uv", "cache", "dir"], capture_output=True, text=True, check=True)
    pip = subprocess.run([sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=False)
    return {
        "PIP_CACHE_DIR": pip.stdout.strip(),
        **variables,
        "UV_CACHE_DIR": uv.stdout.strip(),
        "PATH": ":".join([*map(str, folders), os.environ["PATH"]]),
        "DOCKER_HOST": "unix:///nowhere/docker.sock",
    }


def made_environment() -> Path | None:
    """Return the environment that ci/kernel-matrix has made in this checkout, if it has."""
    made = ROOT / ".venv"
    return made if (made / "made-from.txt").exists() else None
