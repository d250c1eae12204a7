"""The workflows themselves, run by act: which jobs start on which machines, and what is there when they have ended.

act runs a workflow file as GitHub does, here without containers: each job has a folder of its own on this machine. In
place of the six actions of GitHub, which need GitHub's services, it gets the stand-ins in ``act``. The repository is this
checkout with the doubles' small package in place of the kernels.

act evaluates the labels of a matrix's rows in one place that they share, so a run here has one row of own machines. It
loses the last line of a step that ends at once, so what such a step says is tested elsewhere.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from common import ROOT
from loops import at_least
from plays import HERE, HOSTED, PROGRAMS, ROOM, TARGET, commit, git, let_die, made_environment, repository, variables_of
from ruamel.yaml import YAML
from workflow_policy import parse, read

ACT = shutil.which("act", path=f"{PROGRAMS}{os.pathsep}{os.environ.get('PATH', '')}")
STANDINS = ROOT / "tests" / "ci" / "act"
ACTION = (ROOT / "action.yml").read_text(encoding="utf-8")
PINS = sorted(set(re.findall(r"uses: (actions/\S+@\S+)", "\n".join([*read(ROOT).values(), ACTION]))))
# Three rows of a platform with a container share its image. Without an engine there is none.
SHARED = HERE.replace("[good]", "[good, wrong, raises]").replace(
    "{ title", "{ container: containers/here/Dockerfile, title"
)
IN_ROOM = f"room.good.{TARGET}"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        ACT is None, reason="act is not here; this installs it: ci/nox -s tests -- tests/ci/test_act.py"
    ),
]


@dataclass(frozen=True)
class Played:
    """A run of a workflow that has ended: act's exit status and log, and the artifacts."""

    folder: Path
    status: int

    @cached_property
    def entries(self) -> list[dict[str, Any]]:
        """The lines of the log that act has written for programs."""
        lines = (self.folder / "log.jsonl").read_text(errors="replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    @cached_property
    def results(self) -> dict[str, str]:
        """The result of each job that a machine took: a row's job by its row."""
        return {job_of(entry): entry["jobResult"] for entry in self.entries if "jobResult" in entry}

    @property
    def without_machine(self) -> set[str]:
        """The jobs that no machine took."""
        return {job_of(entry) for entry in self.entries if "Skipping unsupported platform" in entry.get("msg", "")}

    @property
    def said(self) -> str:
        """All that was printed."""
        return "\n".join(entry.get("msg", "").rstrip() for entry in self.entries)

    def kept(self, name: str) -> Path:
        """Return the folder of an artifact."""
        return self.folder / "store" / name

    def page(self, artifact: str = "site") -> dict[str, Any]:
        """Return the content of a page."""
        page: dict[str, Any] = json.loads((self.kept(artifact) / "compat.json").read_text())
        return page

    def cell(self, platform: str, artifact: str = "site") -> dict[str, Any]:
        """Return the platform's cell of a page."""
        cells = self.page(artifact)["cells"]
        return next(cell for cell in cells if cell["id"].startswith(f"{platform}/"))


def job_of(entry: dict[str, Any]) -> str:
    """Return the job that a line of the log is about: a row by its id."""
    row = (entry.get("matrix") or {}).get("row")
    return row["id"] if row else entry["jobID"]


def play(
    root: Path,
    event: str,
    *words: str,
    labels: Iterable[str] = (HOSTED,),
    payload: dict[str, Any] | None = None,
    actions: Iterable[str] = (),
    **variables: str,
) -> Played:
    """Let act play an event of a repository, with machines that have these labels."""
    folder = root.with_name(f"{root.name}-run")
    for name in ("store", "bin", "home"):
        (folder / name).mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "event.json").write_text(json.dumps(payload or {}))
    command = [str(ACT), event, *words, "--eventpath", str(folder / "event.json"), "--json", "--defaultbranch", "main"]
    command += ["--no-skip-checkout", "--no-cache-server", "--action-offline-mode", "--container-daemon-socket", "-"]
    command += ["--concurrent-jobs", "8", "--action-cache-path", str(folder / "actions")]
    for label in labels:
        command += ["--platform", f"{label}=-self-hosted"]
    for pin in PINS:
        command += ["--local-repository", f"{pin}={STANDINS / name_of(pin)}"]
    for action in actions:
        command += ["--local-repository", action]
    with (folder / "log.jsonl").open("wb") as log:
        env = {**environment(folder, root), **variables}
        done = subprocess.run(command, cwd=root, env=env, stdout=log, stderr=log, timeout=900, check=False)
    return Played(folder, done.returncode)


def environment(folder: Path, root: Path) -> dict[str, str]:
    """Return the variables of act and its jobs."""
    return {
        **variables_of(folder / "bin", STANDINS / "bin"),
        "HOME": str(folder / "home"),
        "PIP_NO_COMPILE": "0",  # no bytecode of what the action installs and does not import; pip takes 0 for yes here
        "ACT_REPOSITORY": str(root),
        "ACT_STORE": str(folder / "store"),
        "ACT_LOG": str(folder / "log.jsonl"),
        "ACT_STANDINS": str(STANDINS),
        "ACT_VENV": str(made_environment() or ""),
    }


def push(folder: Path, kind: str = "operators") -> Played:
    """Push to main, while the machine of the other room is switched off."""
    root = repository(folder, HERE, ROOM, kind=kind)
    return play(root, "push", "--workflows", ".github/workflows/main.yml", payload={"ref": "refs/heads/main"})


def night(folder: Path) -> Played:
    """Play a night in which the machine of each row dies, after an image was to be made for all."""
    root = let_die(repository(folder, SHARED), "")
    return play(root, "schedule", "--job", "publish", "--workflows", ".github/workflows/nightly.yml")


def pull_request(folder: Path, owner: str, *labels: str) -> Played:
    """Open a pull request with labels from a repository of this owner, while the machine of the other room is free."""
    root = repository(folder, HERE, ROOM)
    base = git(root, "rev-parse", "HEAD")
    changed = root / "src" / "doubles" / "__init__.py"
    changed.write_text(f"{changed.read_text()}# a change\n")
    head = {"sha": commit(root), "ref": "change", "repo": {"full_name": f"{owner}/kernel-matrix"}}
    named = [{"name": label} for label in labels]
    request = {
        "number": 7,
        "labels": named,
        "user": {"type": "User"},
        "base": {"sha": base, "ref": "main"},
        "head": head,
    }
    words = ("--job", "matrix", "--workflows", ".github/workflows/pull-request.yml")
    return play(
        root, "pull_request", *words, labels=(HOSTED, "room"), payload={"action": "opened", "pull_request": request}
    )


def by_hand(root: Path, commit: str, **variables: str) -> Played:
    """Start the matrix by hand for a commit, while the machine of the other room is free."""
    payload = {"inputs": {"commit": commit, "event": "hand"}}
    words = ("--workflows", ".github/workflows/by-hand.yml")
    return play(root, "workflow_dispatch", *words, labels=(HOSTED, "room"), payload=payload, **variables)


def action(folder: Path) -> Played:
    """Push to a repository that has a matrix.yaml and the workflow of the docs, and knows the harness as an action."""
    page = (ROOT / "docs" / "how-to" / "github-action.md").read_text(encoding="utf-8")
    example = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert example
    harness = repository(folder.with_name("harness"), HERE)
    root = repository(folder, HERE.replace("here:", "cpu:"), ROOM, name="somebody/package", harness=False)
    workflow = root / ".github" / "workflows" / "matrix.yml"
    workflow.parent.mkdir(parents=True)
    workflow.write_text(
        "name: matrix\non: push\n" + example[1].replace("OWNER", "owner").replace("ubuntu-latest", HOSTED)
    )
    commit(root)
    return play(root, "push", payload={"ref": "refs/heads/main"}, actions=[f"owner/kernel-matrix@COMMIT={harness}"])


def play_all(plays: Mapping[str, Callable[[], Played]]) -> dict[str, Played]:
    """Play several at a time: a run waits for its jobs, and for a machine that does not come."""
    with ThreadPoolExecutor(3) as pool:
        started = {name: pool.submit(run) for name, run in plays.items()}
        return {name: run.result() for name, run in started.items()}


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> dict[str, Played]:
    """Play the events of which no other test runs the steps."""
    folder, somewhere = tmp_path_factory.mktemp("act"), "a" * 40
    started = repository(folder / "short", HERE, ROOM)
    nobody, none = (shutil.copytree(started, folder / name) for name in ("nobody", "none"))
    plays = {
        "action": lambda: action(folder / "action"),
        "short": lambda: by_hand(started, "0123456789ab", ACT_REVIEWERS="1"),
        "nobody": lambda: by_hand(nobody, somewhere, ACT_REVIEWERS="0"),
        "no environment": lambda: by_hand(none, somewhere),
    }
    return play_all(plays)


@pytest.fixture(scope="module")
def played_at_night(tmp_path_factory) -> dict[str, Played]:
    """Play the events that run the matrix. ``test_machines.py`` runs the commands of their steps by day."""
    folder = tmp_path_factory.mktemp("act")
    return play_all(
        {
            "push": lambda: push(folder / "push"),
            "push of a suite": lambda: push(folder / "suite", "suite"),
            "fork": lambda: pull_request(folder / "fork", "somebody", "$(touch x)", f"matrix: {TARGET}"),
            "branch": lambda: pull_request(folder / "branch", "owner"),
            "no plan": lambda: pull_request(folder / "no-plan", "owner", "matrix: gfx9999"),
            "night": lambda: night(folder / "night"),
        }
    )


@pytest.mark.nightly
@pytest.mark.parametrize(("play", "state"), [("push", "pass"), ("push of a suite", "held")])
def test_a_push_runs_every_row_on_its_machine_and_publishes(played_at_night, play, state):
    run = played_at_night[play]
    assert run.results == {"plan": "success", "here.good": "success", "report": "success", "pages": "success"}, run.said
    assert run.status == 0
    assert run.cell("here")["state"] == state
    assert (run.kept("published")).exists()
    for name in ("index.html", "badge.svg", f"badges/here.{TARGET}.good.svg", "history.json"):
        assert (run.kept("github-pages") / name).exists(), name


@pytest.mark.nightly
@pytest.mark.parametrize("play", ["push", "push of a suite"])
def test_a_machine_that_does_not_come_holds_nothing_up_and_is_named(played_at_night, play):
    run = played_at_night[play]
    assert run.without_machine == {IN_ROOM}
    assert run.cell("room")["state"] == "unavailable"
    assert f"no machine with the labels self-hosted, linux, room, {TARGET} took it" in run.cell("room")["reason"]


@pytest.mark.nightly
def test_a_row_whose_machine_dies_is_missing_and_makes_the_report_red(played_at_night):
    run = played_at_night["night"]
    rows = {f"here.{name}": "failure" for name in ("good", "wrong", "raises")}
    assert run.results == {"plan": "success", "image": "success", **rows, "report": "failure"}, run.said
    assert not run.kept("image-here").exists(), "without an engine there is none, and that holds no row back"
    assert run.cell("here")["state"] == "missing"
    assert "the job ended as 'failure' on machine-of-act and left no result" in run.cell("here")["reason"]
    assert run.status == 1


@pytest.mark.nightly
def test_a_branch_of_the_repository_reaches_the_own_machines(played_at_night):
    run = played_at_night["branch"]
    assert run.results == {"plan": "success", "here.good": "success", IN_ROOM: "success", "report": "success"}, run.said
    assert run.cell("room")["state"] == "pass"
    assert "src/doubles/__init__.py was changed" in run.said
    assert not run.kept("github-pages").exists()


@pytest.mark.nightly
def test_a_fork_s_code_reaches_no_own_machine(played_at_night):
    run = played_at_night["fork"]
    assert run.results == {"plan": "success", "here.good": "success", "report": "success"}, run.said
    assert not [entry for entry in run.entries if job_of_own(entry)], "no step of a job for own machines began"
    assert run.cell("here")["state"] == "pass"
    assert run.cell("room")["state"] == "unavailable"
    [note] = [note for note in run.page()["notes"] if "by a label" in note]
    assert note.startswith(f"Only {TARGET} was asked for")
    assert not run.kept("github-pages").exists()


@pytest.mark.nightly
def test_a_pull_request_whose_plan_fails_has_a_red_report(played_at_night):
    run = played_at_night["no plan"]
    assert run.results == {"plan": "failure", "report": "failure"}, run.said
    assert run.status == 1
    assert "The job plan ended as 'failure'. Its log says why." in run.said
    assert not run.kept("site").exists()


def test_each_action_of_the_workflows_has_a_stand_in_that_takes_what_they_give():
    given = {name: at_least(1, STANDINS.glob(f"{name}/action.yml")) for name in at_least(5, map(name_of, PINS))}
    for workflow in at_least(6, parse({**read(ROOT), "action.yml": ACTION}).values()):
        for step in (step for job in workflow.jobs.values() for step in job.get("steps", [])):
            if (name := name_of(step.get("uses", ""))) in given:
                inputs = YAML(typ="safe").load(STANDINS / name / "action.yml").get("inputs", {})
                assert set(step.get("with", {})) <= set(inputs), (workflow.path, name)


class Receiver(BaseHTTPRequestHandler):
    """Take what is posted to a webhook."""

    def do_POST(self) -> None:
        self.server.taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments: object) -> None: ...


def test_after_a_run_of_main_a_webhook_is_told_which_lane_turned_red_and_no_comment_is_made(tmp_path):
    root, store = repository(tmp_path / "after", HERE), tmp_path / "kept"
    for name, state in (("plan/history", "pass"), ("site", "fail")):
        lane = {"platform": "here", "target": "any", "toolchain": "good", "state": state}
        report = {"schema_version": 2, "run": {"tier": "full", "created": ""}, "cells": [], "lanes": [lane]}
        (store / name).mkdir(parents=True)
        (store / name / "compat.json").write_text(json.dumps(report))
    ended = {"id": 5, "event": "push", "head_branch": "main", "conclusion": "failure", "html_url": "https://code.example/5",
             "head_repository": {"full_name": "owner/kernel-matrix", "owner": {"login": "owner"}}}  # fmt: skip
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.taken = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    secret = f"KERNEL_MATRIX_WEBHOOK=http://127.0.0.1:{server.server_address[1]}/"
    payload = {"action": "completed", "workflow_run": ended, "repository": {"default_branch": "main"}}
    words = ("--workflows", ".github/workflows/after.yml", "--secret", secret)
    run = play(root, "workflow_run", *words, payload=payload, ACT_STORE=str(store))
    server.shutdown()
    server.server_close()
    assert run.results == {"notify": "success"}, run.said
    [message] = server.taken
    assert message["lanes"] == [{"what": "red", "lane": "here/any/good", "before": "pass", "now": "fail"}]
    assert message["page"] == "https://code.example/5"


def name_of(pin: str) -> str:
    """Return the name of an action that a step uses, without its owner and its commit."""
    return pin.partition("@")[0].partition("/")[2]


def job_of_own(entry: dict[str, Any]) -> bool:
    """Return whether a line of the log is of a step of a job for the project's own machines."""
    return entry.get("jobID") == "own" and "step" in entry


@pytest.mark.parametrize("name", ["short", "nobody", "no environment"])
def test_by_hand_nothing_starts_without_a_whole_commit_and_reviewers(played, name):
    assert played[name].results == {"guard": "failure"}, played[name].said


def test_the_documented_action_is_green_in_another_repository_and_keeps_the_page(played):
    run = played["action"]
    assert run.results == {"matrix": "success"}, run.said
    assert run.cell("cpu", "site-cpu")["state"] == "pass"
    assert (run.kept("site-cpu") / "index.html").exists()
    cells = json.loads((run.kept("site-cpu") / "compat.json").read_text())["cells"]
    assert {cell["id"].split("/")[0] for cell in cells} == {"cpu"}, "the page has what was asked for"
