"""A change of matrix.yaml that loosens something is a table of the plan and of a pull request."""

from __future__ import annotations

import os
import subprocess

import pytest
from common import END, ROOT, Doubles, harness
from ruamel.yaml import YAML

from kernel_matrix.ci.loosened import is_wider, loosened
from kernel_matrix.config.plan import plan

EXCLUSION = "{ where: { toolchain: good, tokens: 2 }, reason: it is too slow here, " + END + " }"
EXPECTATION = ("{ where: { toolchain: wrong, tokens: [1, 2] }, outcome: error, stage: launch, match: no such device, "
               "reason: it is wrong on purpose, versions: ['numpy<3'], " + END + " }")  # fmt: skip
RULES = f"exclusions: [{EXCLUSION}]\nexpectations: [{EXPECTATION}]\n"


def changed(doubles: Doubles, *edits: tuple[str, str]):
    """Return the rows for edits of a matrix.yaml that has one exclusion and one expectation."""
    doubles.edit("limits:", f"{RULES}limits:")
    before = doubles.matrix
    for old, new in edits:
        doubles.edit(old, new)
    after = doubles.matrix
    return [
        (row.place, row.change, row.before, row.after, len(row.cases))
        for row in loosened(before, plan(before, "full"), after, plan(after, "full"))
    ]


@pytest.mark.parametrize(
    ("old", "new", "row"),
    [
        ("factor: { limit: 4", "factor: { limit: 5", ("accuracy.factor", "the limit is higher", "4", "5", 0)),
        ("rounded: { limit: 1.5", "rounded: { limit: 1.6", ("accuracy.rounded", "the limit is higher", "1.5", "1.6", 0)),
        ("ulps: { limit: 4", "ulps: { limit: 8", ("accuracy.ulps", "the limit is higher", "4", "8", 0)),
        ("limit: 1.0e-2", "limit: 1.1e-2", ("accuracy.caps.forward", "the limit is higher", "0.01", "0.011", 0)),
        ("job: 120", "job: 120, attempts: 3", ("limits.attempts", "the limit is higher", "1", "3", 0)),
        ("tokens: 2 }", "tokens: [2, 3] }", ("exclusions[0]", "it covers more cases", "toolchain: good; tokens: 2", "toolchain: good; tokens: 2, 3", 1)),
        ("where: { toolchain: good, tokens: 2 }", "where: { tokens: 2 }", ("exclusions[0]", "it covers more cases", "toolchain: good; tokens: 2", "tokens: 2", 12)),
        ("tokens: [1, 2] }", "tokens: [1, 2, 3] }", ("expectations[0]", "it covers more cases", "toolchain: wrong; tokens: 1, 2", "toolchain: wrong; tokens: 1, 2, 3", 1)),
        ("match: no such device", "match: no such", ("expectations[0]", "its pattern matches other messages", "no such device", "no such", 2)),
        ("match: no such device", "match: no such device|.*", ("expectations[0]", "its pattern matches other messages", "no such device", "no such device|.*", 2)),
        ("match: no such device", "match: no such devices?", ("expectations[0]", "its pattern matches other messages", "no such device", "no such devices?", 2)),
        ("versions: ['numpy<3']", "versions: ['numpy<4']", ("expectations[0]", "it holds for more versions", "numpy<3", "numpy<4", 2)),
        ("versions: ['numpy<3'], ", "", ("expectations[0]", "it holds for more versions", "numpy<3", "any", 2)),
        ("stage: launch", "stage: compile", ("expectations[0]", "it expects another end", "error launch", "error compile", 2)),
        ("until: 'numpy>=99' }]\nexpectations", "until: 2030-01-01 }]\nexpectations", ("exclusions[0]", "it ends later", "numpy>=99", "2030-01-01", 1)),
        ("until: 'numpy>=99' }]\nexpectations", "until: 'numpy>=100' }]\nexpectations", ("exclusions[0]", "it ends later", "numpy>=99", "numpy>=100", 1)),
        ("exclusions: [", "exclusions: [{ where: { toolchain: hang }, reason: it takes too long, owner: me, link: lock.txt, until: 2027-01-01 }, ", ("exclusions[0]", "it was added", "-", "toolchain: hang", 3)),
        ("tokens: [1, 2, 3] }\n", "tokens: [1, 2, 3] }\n  more: { directions: [forward], axes: [tokens], cases: { quick: [{ tokens: 2 }] } }\n",
         ("exclusions[0]", "it covers more cases, of which 1 are new in the plan", "toolchain: good; tokens: 2", "toolchain: good; tokens: 2", 1)),
    ],
)  # fmt: skip
def test_each_thing_that_becomes_looser_is_a_row(doubles: Doubles, old, new, row):
    assert row in changed(doubles, (old, new))


GROWTH = "growth: { sums: { limit: 0.4, source: SOURCE }, others: { limit: 0.2, source: SOURCE } }\n  caps:"


def test_a_higher_limit_of_growth_is_a_row_and_so_is_one_that_is_gone(doubles: Doubles):
    doubles.edit("caps:", GROWTH.replace("SOURCE", "chosen for these tests"))
    before = doubles.matrix
    doubles.edit("limit: 0.4", "limit: 0.5")
    after = doubles.matrix
    [row] = loosened(before, plan(before, "full"), after, plan(after, "full"))
    assert (row.place, row.change, row.before, row.after) == (
        "accuracy.growth.sums",
        "the limit is higher",
        "0.4",
        "0.5",
    )
    without = before.model_copy(update={"accuracy": before.accuracy.model_copy(update={"growth": None})})
    rows = loosened(before, plan(before, "full"), without, plan(without, "full"))
    assert [(row.place, row.change, row.before, row.after) for row in rows] == [
        ("accuracy.growth.sums", "the limit is gone", "0.4", "-"),
        ("accuracy.growth.others", "the limit is gone", "0.2", "-"),
    ]
    assert loosened(without, plan(without, "full"), before, plan(before, "full")) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("factor: { limit: 4", "factor: { limit: 3"),
        ("source: chosen for", "source: chosen with care for"),
        ("tokens: [1, 2] }", "tokens: 2 }"),
        ("match: no such device", "match: there is no such device"),
        ("versions: ['numpy<3']", "versions: ['numpy<2.5']"),
        ("until: 'numpy>=99' }]\nexpectations", "until: 'numpy>=9' }]\nexpectations"),
        (EXCLUSION, EXCLUSION.replace("tokens: 2", "target: any, tokens: 2")),
        (f"exclusions: [{EXCLUSION}]\n", ""),
        (EXPECTATION, f"{EXPECTATION.replace('[1, 2]', '1')}, {EXPECTATION.replace('[1, 2]', '2')}"),
    ],
)
def test_what_is_as_strict_or_stricter_is_no_row(doubles: Doubles, old, new):
    assert changed(doubles, (old, new)) == []


def test_a_date_moved_is_a_row_only_to_a_later_one(doubles: Doubles):
    date = ("until: 'numpy>=99' }]\nexpectations", "until: 2027-01-01 }]\nexpectations")
    doubles.edit("limits:", f"{RULES}limits:")
    doubles.edit(*date)
    before, _former = doubles.matrix, "2027-01-01"
    for day, changes in (("2027-01-02", ["it ends later"]), ("2026-12-31", [])):
        doubles.edit(
            f"until: {before.exclusions[0].until}" if day == "2027-01-02" else "until: 2027-01-02", f"until: {day}"
        )
        after = doubles.matrix
        assert [row.change for row in loosened(before, plan(before, "full"), after, plan(after, "full"))] == changes


@pytest.mark.parametrize(
    ("before", "after", "wider"),
    [
        (["a<2"], ["a<2"], False),
        (["a<2"], ["a<=2"], True),
        (["a<2"], ["a<1.9.9"], False),
        (["a<2"], ["a<2.0.0.1"], True),
        (["a==1.*"], ["a>=1,<2"], False),
        (["a>=1,<2"], ["a==1.*"], True),
        (["a==1.*"], ["a~=1.0"], False),
        (["a==1.2"], ["a==1.*"], True),
        (["a!=1.5"], ["a"], True),
        (["a>1"], ["a>1", "b<2"], False),
        (["a>1", "b<2"], ["a>1"], True),
        (["a"], [], False),
        (["A_b<2"], ["a-b<3"], True),
    ],
)
def test_versions_are_compared_exactly(before, after, wider):
    assert is_wider(before, after) is wider


@pytest.fixture
def branch(doubles: Doubles):
    """Return the doubles as a repository whose matrix.yaml may be changed after the commit on main."""

    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
        subprocess.run(["git", *who, *arguments], cwd=doubles.root, check=True, capture_output=True)

    (doubles.root / ".gitignore").write_text("build\n__pycache__\n")
    git("init")
    git("add", ".")
    git("commit", "-m", "one")
    git("switch", "-c", "branch")
    return doubles


def planned(branch: Doubles, *words: str):
    return harness("ci", "plan", "--matrix", str(branch.root / "matrix.yaml"), *words)


@pytest.mark.slow
def test_the_plan_prints_the_table_and_adds_it_to_a_summary(branch: Doubles, tmp_path, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    same = planned(branch, "--rows", "--changed-since", "main", "--summary", str(summary))
    assert "Nothing in matrix.yaml became looser since main." in same.stdout
    branch.edit("limit: 1.0e-2", "limit: 2.0e-2")
    branch.edit("limits:", f"exclusions: [{EXCLUSION.replace('slow', 'slow | `x`')}]\nlimits:")
    rows = planned(branch, "--rows", "--limits-since", "main", "--summary", str(summary))
    table = [
        "| accuracy.caps.forward | the limit is higher | 0.01 | 0.02 | all |",
        (
            "| exclusions&#91;0&#93; | it was added | - | toolchain: good; tokens: 2 | "
            "1, such as here/any/good/double.forward/tokens2 |"
        ),
    ]
    plain = [line.replace("&#91;", "[").replace("&#93;", "]") for line in table]
    assert all(line in rows.stdout.splitlines() for line in plain), "a terminal shows no Markdown"
    written = summary.read_text()
    assert written.startswith("before\nNothing in matrix.yaml became looser since main.")
    assert all(line in written.splitlines() for line in table)
    programs = planned(branch, "--github", "--changed-since", "main")
    assert programs.stdout.startswith("{"), "only what a program reads"
    assert table[0] in programs.stderr.splitlines()


def test_an_event_of_a_matrix_without_events_is_refused_with_what_to_do(branch: Doubles):
    done = planned(branch, "--event", "main")
    assert (done.returncode, done.stdout) == (2, "")
    assert "matrix.yaml has no ci.events" in done.stderr
    assert "leave --event out" in done.stderr


def test_a_former_file_that_cannot_be_read_is_a_row_and_not_silent(branch: Doubles, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    path = branch.root / "matrix.yaml"
    text = path.read_text()
    path.write_text("package: 1\n")
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b.org", "commit", "-qam", "broken"],
        cwd=branch.root,
        check=True,
    )
    path.write_text(text)
    done = planned(branch, "--rows", "--limits-since", "HEAD")
    assert done.returncode == 0
    assert "the former file cannot be compared, look at the change yourself: package" in done.stdout
    done = planned(branch, "--rows", "--limits-since", "nowhere")
    assert done.returncode == 2
    assert "git fetch origin nowhere" in done.stderr


def test_a_pull_request_has_the_table_in_its_summary_with_any_label(tmp_path):
    read = YAML(typ="safe").load
    called = read((ROOT / ".github" / "workflows" / "pull-request.yml").read_text())["jobs"]["matrix"]["with"]
    assert called["limits-since"] == "${{ github.event.pull_request.base.sha }}"
    steps = read((ROOT / ".github" / "workflows" / "matrix.yml").read_text())["jobs"]["plan"]["steps"]
    [step] = [step for step in steps if step.get("id") == "plan"]
    assert step["env"]["LIMITS_SINCE"] == "${{ inputs.limits-since }}"
    program = tmp_path / "ci" / "kernel-matrix"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@" >> calls\n')
    program.chmod(0o755)
    summary = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "GITHUB_OUTPUT": str(tmp_path / "output")}
    for base in ("", "abc"):
        (tmp_path / "calls").unlink(missing_ok=True)
        variables = {"EVENT": "pull_request", "MACHINES": "true", "BASE": base, "LIMITS_SINCE": "abc", **summary}
        script = ["bash", "-e", "-c", step["run"]]
        subprocess.run(script, cwd=tmp_path, env={**os.environ, **variables}, check=True)
        rows, programs = (tmp_path / "calls").read_text().splitlines()
        assert f"--limits-since abc --summary {tmp_path / 'summary.md'} --rows" in rows
        assert "--summary" not in programs, "the table would be there twice"
