"""Rules of a repository keep files out of git: ``init`` lets git have its own files, and the rest is said."""

from __future__ import annotations

import os
import subprocess

import pytest
from common import harness

from kernel_matrix.adopt.writing import admit, write
from kernel_matrix.base import git

FILES = {"ci/locks/own.txt": "", "ci/locks/own.in": "", ".gitignore": "/build/\n", "matrix.yaml": "", "ci/ci.yml": ""}


def run(root, *words):
    subprocess.run(["git", "-C", root, *words], check=True, capture_output=True)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Return a repository; no rule of this user counts."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    root = tmp_path / "own"
    root.mkdir()
    run(root, "init", "--quiet")
    return root


@pytest.mark.parametrize(
    ("place", "rule", "kept_out"),
    [
        (".gitignore", "*.txt", ["ci/locks/own.txt"]),
        (".gitignore", "*.txt\n!own.txt", []),
        (".gitignore", "*.y*ml", ["ci/ci.yml", "matrix.yaml"]),
        (".gitignore", "own.*\n!/ci/locks/own.in", ["ci/locks/own.txt"]),
        (".gitignore", "*.txt # comment\n*.in", ["ci/locks/own.in"]),
        (".git/info/exclude", "ci/locks/*", ["ci/locks/own.in", "ci/locks/own.txt"]),
        ("../everywhere", "*.txt", ["ci/locks/own.txt"]),
    ],
)
def test_git_has_each_file_that_is_written(root, monkeypatch, place, rule, kept_out):
    if place == "../everywhere":
        run(root, "config", "core.excludesFile", str(root / place))
    (root / place).write_text(f"{rule}\n")
    write(root, FILES)
    lines = admit(root, FILES)
    assert sorted(line.partition(":")[0] for line in lines) == kept_out
    assert all("would keep it out of git, so .gitignore names it" in line for line in lines)
    run(root, "add", "--all")
    assert git.tracked_files(root) == FILES.keys()


@pytest.mark.parametrize(
    ("rules", "file"),
    [
        ({".gitignore": "ci/"}, "ci/locks/own.txt"),
        ({".gitignore": "", "ci/.gitignore": "*.txt"}, "ci/locks/own.txt"),
        ({".gitignore": "*.txt", "CMakeLists.txt": ""}, "CMakeLists.txt"),
        ({".gitignore": "test_*", "tests/test_a.py": "", "tests/conftest.py": ""}, "tests/test_a.py"),
        ({".gitignore": "setup.*", "setup.py": ""}, "setup.py"),
    ],
)
def test_a_file_that_git_ignores_all_the_same_is_said_with_its_rule(root, rules, file):
    write(root, rules)
    write(root, FILES)
    [line] = [line for line in admit(root, FILES) if line.startswith(f"{file}: Git ignores it")]
    assert f"`git add --force {file}`" in line
    assert ".gitignore:1: " in line
    assert f"!/{file}" not in (root / ".gitignore").read_text(), "a rule that changes nothing"
    run(root, "add", "--force", file)
    assert not [line for line in admit(root, FILES) if line.startswith(f"{file}: Git")]


def test_what_is_not_read_by_a_build_and_a_whole_folder_are_no_words(root):
    ignored = ("*.txt\n/own/\n_version.py", {"notes.txt": "", "own/test_a.py": "", "_version.py": ""})
    write(root, {".gitignore": ignored[0], **ignored[1]})
    assert admit(root, {"matrix.yaml": ""}) == []


def test_outside_of_a_checkout_nothing_is_said(tmp_path):
    (tmp_path / ".gitignore").write_text("*.txt\n")
    write(tmp_path, FILES)
    assert admit(tmp_path, FILES) == []


def test_check_names_a_lock_that_git_ignores_and_a_checkout_without_it_why_it_lacks_it(doubles, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    run(doubles.root, "init", "--quiet")
    (doubles.root / ".gitignore").write_text("*.txt\n")
    words = "lock.txt: Git ignores it (.gitignore:1: *.txt), so other checkouts do not get it."
    check = ("check", "--matrix", str(doubles.root / "matrix.yaml"))
    done = harness(*check)
    assert words in done.stdout
    (doubles.root / "lock.txt").unlink()
    done = harness(*check)
    assert done.returncode == 2
    assert "the lock file 'lock.txt' does not exist. Git ignores it (.gitignore:1: *.txt)" in done.stderr
    assert "`git add --force lock.txt`" in done.stderr
