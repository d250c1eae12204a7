"""Buildkite's pipeline of the docs, with a stand-in of its agents, while the machine of one row dies.

Steps run as Buildkite describes it: an uploaded step follows the step that uploaded it, an agent takes the steps whose
tags it has, and a step has a checkout of its own and the artifacts that it downloads. Lint checks the steps by Buildkite's
schema.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
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

AGENT = ROOT / "tests" / "ci" / "buildkite"
AGENTS = {"hosted": {"queue": HOSTED}, "room": {"queue": TARGET, "linux": "true", "room": "true"}}
IN_ROOM = f"room.good.{TARGET}"

pytestmark = pytest.mark.nightly


@dataclass
class Build:
    """Hold a build: which agent took each step, how it ended, and what it printed."""

    root: Path
    store: Path
    agents: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    said: str = ""
    state: str = ""  # of a cell that ran

    def run(self, steps: list[dict[str, Any]]) -> None:
        """Run steps, and those that they upload."""
        for step in steps:
            if "wait" in step:
                if any(self.statuses.values()) and not step.get("continue_on_failure"):
                    break
                continue
            self.take(step)
            uploaded = self.store / "uploaded.yml"
            if uploaded.exists():
                more = YAML(typ="safe").load(uploaded)["steps"]
                uploaded.unlink()
                self.run(more)

    def take(self, step: dict[str, Any]) -> None:
        """Let the agent run a step that has its tags. Without one, the step expires."""
        label, asked = step["label"], step["agents"].items()
        self.agents[label] = next((name for name, tags in AGENTS.items() if asked <= tags.items()), "none")
        if self.agents[label] == "none":
            return
        folder = self.store / "checkouts" / label
        subprocess.run(["git", "clone", "--quiet", self.root, folder], check=True)
        if made := made_environment():
            (folder / ".venv").symlink_to(made)
        env = {**variables_of(AGENT), "STORE": str(self.store)}
        uploads = [["buildkite-agent", "artifact", "upload", pattern] for pattern in step.get("artifact_paths", [])]
        for command in (["bash", "-ec", "\n".join(step["command"])], *uploads):
            done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
            self.statuses.setdefault(label, done.returncode)
            self.said += f"{label}: {done.stdout}{done.stderr}\n"


@pytest.fixture(scope="module", params=STATES)
def build(tmp_path_factory, request) -> Build:
    """Run the pipeline of the docs, in which the machine of the other room dies."""
    folder = tmp_path_factory.mktemp("buildkite")
    root = repository(folder / "package", HERE, ROOM, kind=request.param)
    made = Build(let_die(root, "room"), folder / "store", state=STATES[request.param])
    made.store.mkdir()
    made.run(documented("### Buildkite")["steps"])
    return made


def test_each_row_runs_on_an_agent_with_its_labels_and_the_report_runs_after_all(build):
    assert build.statuses == {"plan": 0, "here.good": 0, IN_ROOM: -9, "report": 1}, build.said
    assert build.agents == {"plan": "hosted", "here.good": "hosted", IN_ROOM: "room", "report": "hosted"}
    assert list(build.agents)[-1] == "report"


def test_a_row_that_died_is_missing_in_a_report_that_has_the_results_of_the_other(build):
    site = build.store / "artifacts" / "build" / "site"
    cells = {cell["id"].split("/")[0]: cell for cell in json.loads((site / "compat.json").read_text())["cells"]}
    assert cells["here"]["state"] == build.state
    assert cells["room"]["state"] == "missing"
    for name in ("index.html", "badge.svg", f"badges/here.{TARGET}.good.svg", f"badges/room.{TARGET}.good.svg"):
        assert (site / name).exists(), name


def test_the_build_shows_the_summary_also_where_the_report_is_red(build):
    assert build.statuses["report"] == 1
    assert (build.store / "kernel-matrix.md").read_text() == (
        build.store / "artifacts" / "build" / "site" / "summary.md"
    ).read_text()


def test_a_build_whose_plan_fails_is_red_and_starts_no_row(tmp_path):
    root = repository(tmp_path / "package", HERE, ROOM)
    (root / "matrix.yaml").write_text("platforms: [\n")
    commit(root)
    made = Build(root, tmp_path / "store")
    made.store.mkdir()
    made.run(documented("### Buildkite")["steps"])
    assert made.statuses == {"plan": 2}, made.said
