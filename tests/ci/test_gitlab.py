"""GitLab's pipeline of the docs with its child, played by gitlab-ci-local while the machine of one row dies.

gitlab-ci-local checks both pipelines by GitLab's schema, and runs each job in a folder of its own with the artifacts that
GitLab would give it. It knows no runners, so every job runs. It does not fetch what a job needs of the parent pipeline, so
``gitlab/hand-over`` does, and a red child does not make its trigger red. In place of rsync it gets ``gitlab/rsync``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from common import ROOT
from plays import (
    HERE,
    HOSTED,
    ROOM,
    STATES,
    TARGET,
    commit,
    documented,
    let_die,
    made_environment,
    repository,
    variables_of,
)
from ruamel.yaml import YAML

STANDINS = ROOT / "tests" / "ci" / "gitlab"
PROGRAM = os.environ.get("KERNEL_MATRIX_GITLAB", "")
IN_ROOM = f"room.good.{TARGET}"

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        not PROGRAM, reason="gitlab-ci-local is not here; this installs it: ci/nox -s tests -- tests/ci/test_gitlab.py"
    ),
]


@dataclass(frozen=True)
class Played:
    """A pipeline that has ended, with its child."""

    root: Path
    said: str
    status: int
    state: str = ""  # of a cell that ran

    @cached_property
    def child(self) -> dict[str, Any]:
        """The child pipeline as it was planned."""
        return YAML(typ="safe").load(self.root / "planned.yml")

    def ended(self, job: str) -> str:
        """Return how a job ended: ``PASS``, or its exit status."""
        if found := re.search(rf"{re.escape(job)}\s+finished in \S+ \S+( +FAIL (\d+))?", self.said):
            return found[2] or "PASS"
        return "did not run"

    def kept(self, job: str) -> Path:
        """Return the folder of a job's artifacts."""
        return self.root / ".gitlab-ci-local" / "artifacts" / job


def play(root: Path) -> Played:
    """Play the pipeline of the docs in a repository."""
    pipeline = documented("### GitLab")
    pipeline["plan"]["script"].append(f"{STANDINS / 'hand-over'} {root}")
    with (root / ".gitlab-ci.yml").open("w") as stream:
        YAML(typ="safe").dump(pipeline, stream)
    if made := made_environment():
        (root / ".venv").symlink_to(made)
    commit(root, force=True)
    variables = {**variables_of(STANDINS), "HOME": str(root.parent)}
    command = ["node", PROGRAM, "--shell-isolation", "--no-color"]
    done = subprocess.run(command, cwd=root, env=variables, capture_output=True, text=True, timeout=900, check=False)
    return Played(root, f"{done.stdout}{done.stderr}", done.returncode)


@pytest.fixture(scope="module", params=STATES)
def played(tmp_path_factory, request) -> Played:
    """Play the pipeline of the docs, in which the machine of the other room dies."""
    root = repository(tmp_path_factory.mktemp("gitlab") / "package", HERE, ROOM, kind=request.param)
    return replace(play(let_die(root, "room")), state=STATES[request.param])


def test_a_pipeline_whose_plan_fails_is_red_and_has_no_child(tmp_path):
    root = repository(tmp_path / "package", HERE, ROOM)
    (root / "matrix.yaml").write_text("platforms: [\n")
    failed = play(root)
    assert (failed.ended("plan"), failed.ended("matrix")) == ("2", "did not run"), failed.said
    assert failed.status != 0


def test_each_row_runs_where_its_labels_send_it_and_the_report_runs_after_all(played):
    jobs = [name for name, job in played.child.items() if "script" in job]
    ended = {job: played.ended(job) for job in jobs}
    assert ended == {"plan": "PASS", "here.good": "PASS", IN_ROOM: "137", "report": "1"}, played.said
    tags = {job: played.child[job]["tags"] for job in ended}
    assert tags.pop(IN_ROOM) == ["self-hosted", "linux", "room", TARGET]
    assert [*tags.values()] == [[HOSTED]] * 3
    assert "json schema validated" in played.said


def test_a_row_that_died_is_missing_in_a_report_that_has_the_results_of_the_other(played):
    site = played.kept("report") / "build" / "site"
    cells = {cell["id"].split("/")[0]: cell for cell in json.loads((site / "compat.json").read_text())["cells"]}
    assert cells["here"]["state"] == played.state
    assert cells["room"]["state"] == "missing"
    for name in ("index.html", "badge.svg", f"badges/here.{TARGET}.good.svg", f"badges/room.{TARGET}.good.svg"):
        assert (site / name).exists(), name


def test_only_results_travel_with_a_row(played):
    assert [path.name for path in (played.kept("hereLggood") / "build").iterdir()] == ["results"]
