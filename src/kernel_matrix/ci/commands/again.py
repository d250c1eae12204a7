"""Run what is red again on this commit, and once on its base: is it new here, also there, flaky, or the machine."""

from __future__ import annotations

import argparse
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from kernel_matrix.base import git
from kernel_matrix.base.errors import UserError
from kernel_matrix.base.numbers import above_zero, whole
from kernel_matrix.ci.again import Budget, checks_of, red_cases, run_again, write
from kernel_matrix.ci.passed import Passed
from kernel_matrix.cli.options import add_matrix_options, load_project
from kernel_matrix.run.settings import AUTO, EXECUTORS
from kernel_matrix.vendors.machine import detect

# The variables that name the base of a pull request, and what stands before their value.
_BASES = {
    "KERNEL_MATRIX_BASE": "",
    "CI_MERGE_REQUEST_DIFF_BASE_SHA": "",
    "GITHUB_BASE_REF": "origin/",
    "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "origin/",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which results, which base, and how much it may take."""
    add_matrix_options(parser)
    parser.add_argument("results", nargs="*", type=Path, help="folders of the results (build/results)")
    parser.add_argument("--base", metavar="REF", help="where the change began: the commit at which this branch left "
                        f"REF; by default what {', '.join(_BASES)} say")  # fmt: skip
    parser.add_argument("--times", type=whole(1), default=Budget.times, help="how often each case runs again (3)")
    parser.add_argument("--minutes", type=above_zero, default=Budget.minutes, help="how long all of this may take (20)")
    parser.add_argument("--cases", type=whole(1), default=Budget.cases, help="how many cases run again at most (20)")
    parser.add_argument("--history", type=Path, help="tables of earlier runs, for what passed on which machine")
    parser.add_argument("--executor", choices=(AUTO, *EXECUTORS), default=AUTO, help="where the cases run")


def main(options: argparse.Namespace) -> int:
    """Run again, and print and write what was found. What was red stays red."""
    project, when = load_project(options), datetime.now(UTC)
    budget = Budget(options.times, options.minutes, options.cases)
    commit = git.commit(project.root)
    base = _base(project.root, options.base)
    red = red_cases(project, options.results or [project.results], commit)
    passed = Passed.of(options.history, [verdict.case.id for verdict in red], (commit, base))
    tried, left = run_again(project, red, base, budget, detect(), options.executor)
    found = list(checks_of(tried, left, base, budget, passed, when))
    for check in found:
        print("\n".join((*(f"{one.case}: {one.text}" for one in check.findings), *check.unfinished)))
    files = write(found, project.build)
    print("\n".join(f"written: {file}" for file in files) or "nothing is red")
    return 0


def _base(root: Path, asked: str | None) -> str:
    """Return the base commit, abbreviated as in results; empty if nothing names one, or if it is this commit.

    Raises:
        UserError: git does not know it.
    """
    named = [before + os.environ[name] for name, before in _BASES.items() if os.environ.get(name)]
    reference = asked or next(iter(named), "")
    if not reference:
        return ""
    words = ["git", "-C", str(root), "merge-base", "--end-of-options", reference, "HEAD"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip() or "no common ancestor").splitlines()[0]
        raise UserError(f"the base {reference}: git merge-base: {reason}. Fetch it first, with the commits in between.")
    base = done.stdout.strip()[:12]
    return "" if base == git.revision(root) else base
