"""A red case that runs again on its commit and on the base gets a word with its evidence, and stays red."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from common import COPY, Doubles, harness, share, write_results
from records import GOOD

from kernel_matrix.ci.passed import rates
from kernel_matrix.report.checks import read
from kernel_matrix.report.reruns import Tries
from kernel_matrix.store.record import Record
from kernel_matrix.vendors.machine import detect

SOUND = "    out[:] = 2.001 * x\n"
# By the number of tokens: red since the change, red before too, red in every second process, red before too.
KERNEL = """\
    seen = Path({seen!r})
    with seen.open("a") as file:
        file.write(f"{{os.getpid()}}\\n" if len(x) == 3 else "")
    every_second = len(dict.fromkeys(seen.read_text().split())) % 2
    out[:] = {{1: {new}, 2: 3, 3: 2 + every_second, 4: 3}}[len(x)] * x
"""


def git(doubles: Doubles, *words: str) -> str:
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    return subprocess.run(["git", *who, *words], cwd=doubles.root, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def changed(here: Doubles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Doubles:
    """Return the doubles in a repository of two commits."""
    for name in ("KERNEL_MATRIX_BASE", "GITHUB_BASE_REF"):
        monkeypatch.delenv(name, raising=False)
    kernel, suite = here.root / "src" / "doubles" / "__init__.py", here.root / "suite" / "test_doubles.py"
    here.edit("tokens: [1, 2, 3]", "tokens: [1, 2, 3, 4, 5]")
    suite.write_text(suite.read_text().replace("faulty=tokens == 2", "faulty=tokens < 5"))
    (here.root / ".gitignore").write_text("build\n")
    before = kernel.read_text()
    git(here, "init", "--quiet")
    for new in (2, 3):
        kernel.write_text(before.replace(SOUND, KERNEL.format(seen=str(tmp_path / "seen"), new=new)))
        git(here, "add", "--all")
        git(here, "commit", "--quiet", "--message", f"commit {new}")
    share(here.root / "build", COPY)
    return here


def run(doubles: Doubles, command: str, *words: str) -> subprocess.CompletedProcess[str]:
    return harness(*command.split(), "--matrix", str(doubles.root / "matrix.yaml"), *words)


def words_of(doubles: Doubles) -> dict[int, str]:
    """Return what the check says of each case, by its number of tokens."""
    [check] = read(doubles.root / "build" / "checks")
    return {int(finding.case[-1]): finding.text for finding in check.findings}


def result_of(doubles: Doubles, tokens: int, **facts: str) -> Record:
    """Return the result of a case at this commit that passed."""
    facts = {**GOOD.job, "commit": git(doubles, "rev-parse", "--short=12", "HEAD").strip(), **facts}
    target = doubles.matrix.platforms["here"].targets[0]
    return replace(GOOD, case=f"here/{target}/wrong/double.forward/tokens{tokens}", job=facts)


@pytest.mark.slow
def test_a_red_case_gets_its_word_with_counts_and_stays_red(changed: Doubles, tmp_path: Path):
    assert run(changed, "run", "--executor", "current", "--toolchain", "wrong").returncode == 1
    history = tmp_path / "history"
    write_results(history, [result_of(changed, 4, device="another")])
    base = git(changed, "rev-parse", "--short=12", "HEAD~1").strip()
    done = run(
        changed, "ci again", "--base", "HEAD~1", "--executor", "current", "--times", "1", "--history", str(history)
    )
    assert done.returncode == 0, done.stderr
    found = words_of(changed)
    assert found == {
        1: f"new here (red 2 of 2 on one commit; the base {base} is not red)",
        2: f"also on the base (red 2 of 2 on one commit; the base {base} is red)",
        3: "flaky (1 of 2 on one commit)",
        4: f"machine (red 2 of 2 on one commit; the base {base} is red; this commit passed on another)",
    }
    assert git(changed, "worktree", "list").count("\n") == 1, "the work tree is gone"
    assert run(changed, "report", str(changed.root / "build" / "results")).returncode == 1, "it is as red as before"
    summary = (changed.root / "build" / "site" / "summary.md").read_text()
    [cell] = [part for part in summary.split("\n## ") if "/wrong/double.forward: fail" in part.partition("\n")[0]]
    assert f"\n[{found[1]}] " in cell, "the word stands at the cell, where no comment cuts it"
    [check] = read(changed.root / "build" / "checks")
    assert (check.cells[0].tried, check.is_red) == (4, True)


@pytest.mark.slow
def test_running_again_has_limits_and_says_what_it_left_out(changed: Doubles):
    red = [
        replace(result_of(changed, tokens, device=detect().devices[0].name), outcome="error") for tokens in (1, 2, 4)
    ]
    write_results(changed.root / "build" / "results", red)
    done = run(changed, "ci again", "--executor", "current", "--cases", "1", "--times", "1")
    assert done.returncode == 0, done.stderr
    assert words_of(changed) == {1: "red 2 of 2 on one commit; no base was run"}
    assert done.stdout.count(": it was not run again: --cases is 1, --minutes 20\n") == 2
    git(changed, "commit", "--quiet", "--allow-empty", "--message", "another")
    for options, text in (
        ((), "the results are of commit"),
        (("--base", "nowhere"), "the base nowhere: git merge-base"),
    ):
        done = run(changed, "ci again", *options)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert text in done.stderr


@pytest.mark.parametrize(
    ("tries", "word"),
    [
        (Tries(red=1, total=1), ""),
        (Tries(red=1, total=1, base="b", base_red=False), ""),
        (Tries(red=4, total=4), ""),
        (Tries(red=3, total=4, base="b", base_red=True), "flaky"),
        (Tries(red=4, total=4, base="b"), "new here"),
        (Tries(red=4, total=4, base="b", elsewhere="H200"), "new here"),
        (Tries(red=4, total=4, base="b", base_red=True), "also on the base"),
        (Tries(red=4, total=4, base="b", base_red=True, elsewhere="H200"), "machine"),
        (Tries(red=4, total=4, base="b", base_red=True, before=True), "machine"),
        (Tries(red=4, total=4, before=True), ""),
        (Tries(red=4, total=4, elsewhere="H200"), "machine"),
    ],
)
def test_a_word_needs_its_evidence(tries: Tries, word: str):
    assert tries.word == word
    assert tries.text.startswith(word or f"red {tries.red} of {tries.total}")


def test_a_rate_is_of_the_tries_on_one_commit_and_machine(tmp_path: Path):
    folder, cases = tmp_path / "history", ("steady", "flakes", "heals")
    for number, outcomes in enumerate((("fail", "fail", "fail"), ("fail", "pass", "pass"), ("fail", "pass", "pass"))):
        facts = {**GOOD.job, "started": f"2026-11-2{number}T10:00:00Z", "commit": "c0" if number < 2 else "c1"}
        write_results(folder, [
            replace(GOOD, case=f"here/any/good/double.forward/{case}", outcome=outcome, job={**facts, "job": case},
                    attempts=("error",) if (case, number) == ("heals", 2) else ())
            for case, outcome in zip(cases, outcomes, strict=True)
        ])  # fmt: skip
    write_results(folder, [replace(GOOD, outcome="fail", job={**GOOD.job, "commit": "c0", "device": "another"})])
    found = {rate.case.rpartition("/")[2]: rate.text for rate in rates(folder)}
    assert found == {
        "flakes": "flaky on 1 of 1 commits; red 1 of 2 times",
        "heals": "flaky on 2 of 2 commits; red 2 of 4 times",
        "steady": "flaky on 0 of 1 commits; red 2 of 2 times",
    }
