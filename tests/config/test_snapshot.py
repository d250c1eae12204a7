"""The label of a result names what its job read: at its start, at its end, and whatever git is told not to look at."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from common import Doubles, records_in
from records import middle, states
from repositories import sh

from kernel_matrix.base import git
from kernel_matrix.config.reads import Checkout
from kernel_matrix.config.snapshot import Snapshot

PACKAGE = "src/doubles/__init__.py"


def snapshot(doubles: Doubles) -> Snapshot:
    return Snapshot.of(Checkout(doubles.matrix, doubles.root), "here", "good", "current", ["double"])


def edit(path: Path, text: str = "\nNEW = 1\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((path.read_text() if path.exists() else "") + text)


def hide(repository: Path, how: str) -> None:
    """Change what a job reads, and keep git from saying so."""
    hidden = "suite/conftest.py"
    match how:
        case "assume-unchanged" | "skip-worktree":
            sh(repository, "git", "update-index", f"--{how}", PACKAGE)
            edit(repository / PACKAGE)
        case "exclude":
            edit(repository / ".git" / "info" / "exclude", f"{hidden}\n")
            edit(repository / hidden)
        case "a user's excludes":
            edit(repository / ".git" / "excludes", "conftest.py\n")
            sh(repository, "git", "config", "core.excludesFile", str(repository / ".git" / "excludes"))
            edit(repository / hidden)
        case "untracked files are not shown":
            sh(repository, "git", "config", "status.showUntrackedFiles", "no")
            edit(repository / hidden)
        case "a new .gitignore in the suite":
            edit(repository / "suite" / ".gitignore", "*\n")
            edit(repository / hidden)
        case "a conftest.py above the suite":
            edit(repository / ".git" / "info" / "exclude", "conftest.py\n")
            edit(repository / "conftest.py")
        case "a new .gitignore in the package":
            edit(repository / "src" / "doubles" / ".gitignore", "*\n")
            edit(repository / "src" / "doubles" / "more.py")
        case "removed":
            sh(repository, "git", "update-index", "--assume-unchanged", "suite/kernel_side.py")
            (repository / "suite" / "kernel_side.py").unlink()


@pytest.mark.parametrize(
    "how",
    ["assume-unchanged", "skip-worktree", "exclude", "a user's excludes", "untracked files are not shown",
     "a new .gitignore in the suite", "a conftest.py above the suite", "a new .gitignore in the package", "removed"],
)  # fmt: skip
def test_a_changed_tree_is_not_hidden(repository, doubles, how):
    clean = snapshot(doubles).commit()
    assert clean == git.revision(repository)
    hide(repository, how)
    assert snapshot(doubles).commit() == f"{clean}+changes"


@pytest.mark.parametrize("name", ["README.md", "notes/x.py", "build/jobs/x.py", "src/doubles/__pycache__/a.pyc"])
def test_a_file_that_no_job_reads_is_no_change(repository, doubles, name):
    edit(repository / name)
    assert snapshot(doubles).commit() == git.revision(repository)


@pytest.mark.parametrize(
    "name", [PACKAGE, "suite/test_doubles.py", "suite/new.py", "src/doubles/new.py", "matrix.yaml", "lock.txt"]
)
def test_what_a_job_reads_is_a_change(repository, doubles, name):
    edit(repository / name, "\n# changed\n")
    assert snapshot(doubles).commit() == f"{git.revision(repository)}+changes"


def test_a_tree_that_git_stores_otherwise_is_no_change(repository, doubles):
    edit(repository / ".gitattributes", "*.py text eol=crlf\n")
    sh(repository, "git", "add", ".gitattributes")
    sh(repository, "git", "commit", "-qm", "line ends")
    (repository / PACKAGE).write_bytes((repository / PACKAGE).read_bytes().replace(b"\n", b"\r\n"))
    assert snapshot(doubles).commit() == git.revision(repository)


@pytest.mark.slow
def test_a_run_that_reads_a_tree_which_changes_meanwhile_is_no_result(doubles: Doubles):
    """A kernel stands in for whoever checks out another commit while the job runs."""
    path = doubles.root / PACKAGE
    change = f"    Path({str(path)!r}).write_text(Path({str(path)!r}).read_text() + '# other')\n"
    path.write_text(
        f'{path.read_text()}\n\ndef other(x, out):\n{change}    out[:] = 2 * x\n\n\nBACKENDS["wrong"] = other\n'
    )
    comparison = doubles.run("wrong")
    assert states(comparison) == ["error"] * 3
    assert middle(comparison).reason.startswith(f"{PACKAGE} changed while the job ran, so nobody knows")
    assert not (doubles.root / "build" / "jobs" / "here.wrong" / "journal.jsonl").exists(), "no run goes on with it"


@pytest.mark.slow
def test_the_commit_is_that_of_the_start(repository, doubles: Doubles):
    """Another commit of files that no job reads comes while the job runs."""
    first, path = git.revision(repository), doubles.root / PACKAGE
    commit = f"    os.system('cd {repository} && git commit -q --allow-empty -m two')\n"
    path.write_text(
        f'{path.read_text()}\n\ndef other(x, out):\n{commit}    out[:] = 2 * x\n\n\nBACKENDS["wrong"] = other\n'
    )
    doubles.run("wrong")
    assert git.revision(repository) != first
    [record, *_] = records_in(repository / "build" / "results", "here.wrong")
    assert record.job["commit"] == f"{first}+changes"


def test_a_file_that_was_changed_and_changed_back_counts(doubles: Doubles):
    before, path = snapshot(doubles), doubles.root / PACKAGE
    text, times = path.read_text(), path.stat()
    path.write_text("")
    path.write_text(text)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert before.seen("", {}).changed == (PACKAGE,)
