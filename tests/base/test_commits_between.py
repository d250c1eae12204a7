"""The commits between two runs are named where the checkout has them, and the web address has no secrets."""

from __future__ import annotations

import subprocess

import pytest

from kernel_matrix.base import git


@pytest.fixture
def checkout(tmp_path):
    """Return a repository with four commits, and a function that runs git in it."""

    def run(*arguments: str) -> str:
        own = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        command = ["git", *own, "-C", str(tmp_path), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    run("init", "-q")
    for subject in ("first", "second", "third", "fourth"):
        run("commit", "-q", "--allow-empty", "-m", subject)
    names = [run("rev-parse", "--short=12", f"HEAD~{back}") for back in (3, 2, 1, 0)]
    return tmp_path, run, names


def test_the_commits_between_two_are_named(checkout):
    root, _, (first, second, _, fourth) = checkout
    assert git.between(root, first, second).split(" ", 1)[1] == "second"
    assert git.between(root, f"{first}+changes", f"{second}+changes").endswith(" second")
    words = git.between(root, first, fourth)
    assert words.startswith("3 commits: from ")
    assert " second to " in words
    assert words.endswith(" fourth")
    assert git.between(root, second, second) == "the same commit"


@pytest.mark.parametrize(
    ("tag", "version"),
    [
        ("v1.2.0", "1.2.0"),
        ("1.2", "1.2"),
        ("kern-2.0rc1", "2.0rc1"),
        ("release/v3.1.0", "3.1.0"),
        ("v1.2.0-rc.1", "1.2.0rc1"),
        ("nightly-2026.11.30", "2026.11.30"),
        ("v1.2.x", ""),
        ("latest", ""),
        (None, ""),
    ],
)
def test_the_release_of_a_commit_is_the_version_of_the_nearest_tag(checkout, tag, version):
    root, run, _ = checkout
    if tag:
        run("tag", tag)
    assert git.release(root) == version
    run("commit", "-q", "--allow-empty", "-m", "fifth")
    assert git.release(root) == (version and f"{version}+later")


def test_what_the_checkout_does_not_have_or_goes_back_is_not_named(checkout):
    root, run, (first, second, *_) = checkout
    assert git.between(root, second, first) == ""
    assert git.between(root, first, "0123456789ab") == ""
    assert git.between(root, "", second) == ""
    assert git.between(root, "--output=/tmp/x", second) == ""
    run("checkout", "-q", "--orphan", "other")
    run("commit", "-q", "--allow-empty", "-m", "elsewhere")
    assert git.between(root, first, run("rev-parse", "--short=12", "HEAD")) == ""


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://example.com/owner/name.git", "https://example.com/owner/name"),
        ("https://user:secret@example.com/owner/name", "https://example.com/owner/name"),
        ("git@example.com:owner/name.git", "https://example.com/owner/name"),
        ("ssh://git@example.com:2222/owner/name.git", "https://example.com/owner/name"),
        ("/srv/git/name.git", ""),
        ("javascript:alert(1)", ""),
    ],
)
def test_the_web_address_of_a_remote_has_no_secret(checkout, remote, address):
    root, run, _ = checkout
    assert git.web_address(root) == ""
    run("remote", "add", "origin", remote)
    assert git.web_address(root) == address
