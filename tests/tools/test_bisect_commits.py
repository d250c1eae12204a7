"""A bisection by commits finds where a case gets another state, and passes over commits that cannot run."""

from __future__ import annotations

import subprocess

import pytest
from common import Doubles, harness

GOOD, BAD = "    out[:] = 2 * x\n", "    out[:] = 3 * x\n"


def git(doubles: Doubles, *words: str) -> str:
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    return subprocess.run(["git", *who, *words], cwd=doubles.root, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def history(here: Doubles) -> Doubles:
    """Return the doubles in a repository of five commits: the third cannot be read, and the fourth has a fault."""
    kernel, matrix = here.root / "src" / "doubles" / "__init__.py", here.root / "matrix.yaml"
    (here.root / ".gitignore").write_text("build\n")
    sound = kernel.read_text()
    assert GOOD in sound
    git(here, "init", "--quiet")
    readable = matrix.read_text()
    faulty = sound.replace(GOOD, BAD)
    versions = [(sound, readable), (f"{sound}#", readable), (sound, "{"), (faulty, readable), (f"{faulty}#", readable)]
    for number, (text, of_matrix) in enumerate(versions):
        kernel.write_text(text)
        matrix.write_text(of_matrix)
        git(here, "add", "--all")
        git(here, "commit", "--quiet", "--message", f"commit {number}")
    return here


@pytest.mark.slow
def test_the_commits_are_named_between_which_nothing_can_be_tried(history: Doubles):
    words = ("toolchains", "bisect", "--matrix", str(history.root / "matrix.yaml"), "--executor", "current")
    target = history.matrix.platforms["here"].targets[0]
    case = ("--case", f"here/{target}/good/double.forward")
    done = harness(*words, "--commits", "HEAD~4..HEAD", *case)
    assert done.returncode == 0, done.stderr
    assert "pass -> fail in one of these commits" in done.stdout
    assert [line.split(" ", 3)[3] for line in done.stdout.splitlines() if "commit " in line[10:]] == [
        "commit 2",
        "commit 3",
    ]
    assert git(history, "worktree", "list").count("\n") == 1, "the work tree is gone"
    assert git(history, "status", "--porcelain") == "", "the checkout is as it was"
    done = harness(*words, "--commits", "HEAD~4..HEAD~3", *case)
    assert (done.returncode, done.stderr) == (2, "kernel-matrix: HEAD~4 and HEAD~3 are in the same state: pass.\n")
    done = harness(*words, "--commits", "HEAD~4..nowhere", *case)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert harness(*words, "--commits", "HEAD~4..HEAD").stderr.count("\n") == 1
