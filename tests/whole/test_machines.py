"""A whole workflow on one machine: each row is run by a process that acts as a machine, and some of them fail."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from common import BYTECODE, COPY, ROOT, copy_doubles, harness, records_in, share, write_results
from loops import at_least
from shown import Page

from kernel_matrix.results import history
from kernel_matrix.store import junit
from kernel_matrix.store.record import Record
from kernel_matrix.vendors.machine import detect

# `room` has the project's own machines. Each of its toolchains is a machine that ends in its own way.
MATRIX = """
platforms:
  here:
    title: hosted
    device: cpu
    runner: [ubuntu-24.04]
    targets: [TARGET]
    machines: [TARGET]
    toolchains: [good, wrong]
  room:
    title: the other room
    device: cpu
    runner: [self-hosted, linux, room]
    targets: [TARGET, elsewhere]
    machines: [TARGET]
    toolchains: [good, hang, flaky, leaves, writes-nothing, raises]
ci: { shard_minutes: 15, case_seconds: 1, queue_minutes: 0.01, silent_days: 7, events: { main: { tier: quick } } }
"""
CONTAINED = "here.good"  # a container if an engine answers, else a process
FATES = ("hang", "flaky", "leaves", "writes-nothing")
DIES, NEVER_ANSWERS, TRUNCATES, IS_HOSTILE = (f"room.{name}.{detect().devices[0].targets[-1]}" for name in FATES)


def target() -> str:
    return detect().devices[0].targets[-1]


def without_network() -> list[str]:
    """Return the command that gives each machine its own network namespace, if this system allows one."""
    probe = ["unshare", "--net", "true"]
    if not shutil.which("unshare") or subprocess.run(probe, capture_output=True, check=False).returncode:
        return []
    return ["unshare", "--net"]


@contextlib.contextmanager
def an_empty_image() -> Iterator[str]:
    """Return an empty image if an engine answers. Otherwise return no name, and every machine is a process."""
    name = f"kernel-matrix-test:{uuid.uuid4().hex}"
    empty = subprocess.run(["tar", "c", "--files-from", "/dev/null"], capture_output=True, check=True).stdout
    if not shutil.which("docker") or subprocess.run(
        ["docker", "import", "-", name], input=empty, capture_output=True, check=False
    ).returncode:  # fmt: skip
        yield ""
        return
    try:
        yield name
    finally:
        subprocess.run(["docker", "rmi", name], capture_output=True, check=False)


@dataclass
class Workflow:
    """Act as the CI service: start rows on machines, carry their artifacts, and know the status of each job."""

    root: Path
    statuses: list[dict[str, str]] = field(default_factory=list)
    rows: dict[str, list[dict]] = field(default_factory=dict)
    image: str = ""

    @property
    def matrix(self) -> Path:
        return self.root / "doubles" / "matrix.yaml"

    def kernel_matrix(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            return harness(*arguments, "--matrix", str(self.matrix))

    def plan(self, *arguments: str) -> None:
        done = self.kernel_matrix("ci", "plan", "--event", "main", "--github", "--write", str(self.root / "plan.json"),
                                  "--history", str(self.root / "history"), *arguments)  # fmt: skip
        assert done.returncode == 0, done.stderr
        self.rows = json.loads(done.stdout)

    def start(self, row: dict) -> subprocess.Popen:
        """Start a machine: a process group with its own build folder, home and network."""
        machine = self.root / "machines" / row["id"]
        (machine / "home").mkdir(parents=True)
        command = [*without_network(), sys.executable, "-m", "kernel_matrix", "run", "--executor", "current"]
        command += ["--matrix", str(self.matrix), "--plan", str(self.root / "plan.json"), "--row", row["id"]]
        command += ["--build", str(machine / "build")]
        env = {**os.environ, "HOME": str(machine / "home"), "PYTHONPATH": str(ROOT / "src")}
        if self.image and row["id"] == CONTAINED:
            command = [*self.container(machine), *command[len(without_network()) :]]
        else:
            share(machine / "build", COPY)
        with (machine / "log.txt").open("wb") as log:
            return subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log, start_new_session=True)

    def container(self, machine: Path) -> list[str]:
        """Start a machine that can read this system's programs, write to its own folder, and has no network."""
        command = ["docker", "run", "--rm", "--network", "none", "--read-only", "--tmpfs", "/tmp:exec"]
        for folder in {"/usr", "/lib", "/lib64", "/bin", sys.prefix, sys.base_prefix, str(ROOT), str(self.root)}:
            command += ["--volume", f"{folder}:{folder}:ro"] if Path(folder).exists() else []
        command += ["--volume", f"{machine}:{machine}", "--workdir", str(ROOT)]
        command += ["--env", f"PYTHONPATH={ROOT / 'src'}", "--env", f"HOME={machine / 'home'}"]
        command += ["--env", f"PYTHONPYCACHEPREFIX={ROOT / 'build' / BYTECODE}"]
        return [*command, self.image]

    def wait_for_second_case(self, row: str) -> None:
        journal = self.root / "machines" / row / "build" / "jobs" / row / "journal.jsonl"
        give_up = time.monotonic() + 300
        while not (journal.exists() and journal.read_text().count('"start"') == 2):
            assert time.monotonic() < give_up, (self.root / "machines" / row / "log.txt").read_text()
            time.sleep(0.05)

    def upload(self, row: str) -> Path:
        folder = self.root / "artifacts" / f"results-{row}"
        shutil.copytree(self.root / "machines" / row / "build" / "results", folder)
        return folder

    def ended(self, row: str, conclusion: str | None, machine: str = "box-1", status: str = "completed") -> None:
        job = {"name": f"matrix / {row}", "status": status, "conclusion": conclusion, "runner_name": machine}
        times = {"created_at": "2026-01-02T03:00:00Z", "started_at": "2026-01-02T03:01:30Z"}
        times["completed_at"] = "2026-01-02T03:04:05Z"
        self.statuses.append({**job, **times, "html_url": "https://example.org/1"})

    def ask(self) -> subprocess.CompletedProcess[str]:
        """Run ``kernel-matrix ci jobs`` with a gh that answers as GitHub would."""
        gh = self.root / "bin" / "gh"
        gh.parent.mkdir(exist_ok=True)
        answer = "\n".join(json.dumps(job) for job in self.statuses)
        gh.write_text(f"#!/bin/sh\n[ \"$1\" = api ] || exit 9\ncat <<'END'\n{answer}\nEND\n")
        gh.chmod(gh.stat().st_mode | stat.S_IXUSR)
        environment = {"GITHUB_REPOSITORY": "o/r", "GITHUB_RUN_ID": "1", "GITHUB_RUN_ATTEMPT": "1"}
        environment["PATH"] = f"{gh.parent}:{os.environ['PATH']}"
        arguments = ("ci", "jobs", "--plan", str(self.root / "plan.json"), "--write", str(self.root / "jobs.json"))
        return self.kernel_matrix(*arguments, **environment)

    def report(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.kernel_matrix(
            *("report", str(self.root / "artifacts"), "--plan", str(self.root / "plan.json"), "--annotate"),
            *("--statuses", str(self.root / "jobs.json"), "--history", str(self.root / "history"), *arguments),
        )

    def site(self, name: str) -> str:
        return (self.root / "doubles" / "build" / "site" / name).read_text()


@pytest.fixture(scope="module")
def workflow(tmp_path_factory, bytecode) -> Iterator[Workflow]:
    root = tmp_path_factory.mktemp("workflow")
    doubles = copy_doubles(root / "doubles", bytecode)
    text = (doubles.root / "matrix.yaml").read_text()
    text = re.sub(r"(?ms)^platforms:\n.*?(?=^ops:)", MATRIX.lstrip().replace("TARGET", target()), text)
    text = text.replace("case: 15,", "case: 60,")
    (doubles.root / "matrix.yaml").write_text(text)
    with an_empty_image() as image:
        flow = Workflow(root, image=image)
        earlier(flow)
        yield flow


def earlier(flow: Workflow) -> None:
    """Write an earlier run: `room.good` takes long, and the last result of `room.flaky` is twelve days old."""
    folder = flow.root / "history"
    folder.mkdir()
    cases = [f"room/{target()}/good/double.forward/tokens{n}" for n in (1, 2, 3)]
    slow = [Record(case, "pass", "run", seconds=600.0) for case in cases]
    junit.write(folder / "junit.xml", "earlier", slow, {})
    long_ago = datetime.now(UTC) - timedelta(days=12)
    lane = history.LaneHistory(last_result=long_ago, message="1 ran of 1", color="#1a7f37")
    (folder / history.FILE).write_text(history.to_json({f"room/{target()}/flaky": lane}, long_ago))


@pytest.fixture(scope="module")
def reported(workflow: Workflow) -> subprocess.CompletedProcess[str]:
    """Play the workflow once for all tests of this module."""
    workflow.plan()
    rows = {row["id"]: row for row in [*workflow.rows["hosted"], *workflow.rows["own"]]}
    assert rows.keys() > {NEVER_ANSWERS, TRUNCATES, IS_HOSTILE}
    started = {name: workflow.start(row) for name, row in rows.items()
               if name not in (NEVER_ANSWERS, TRUNCATES, IS_HOSTILE)}  # fmt: skip
    workflow.wait_for_second_case(DIES)
    os.killpg(started[DIES].pid, signal.SIGKILL)
    for row, process in started.items():
        red = process.wait(timeout=600)
        if row != DIES:
            workflow.ended(row, "failure" if red else "success")
            workflow.upload(row)
    workflow.ended(DIES, "failure", "box-2")
    workflow.ended(NEVER_ANSWERS, None, "", "queued")
    for child in at_least(1, (workflow.root / "machines" / DIES / "build" / "jobs" / DIES).glob("journal.jsonl")):
        pid = json.loads(child.read_text().splitlines()[0])["pid"]
        subprocess.run(["kill", "-9", str(pid)], capture_output=True, check=False)  # the machine left it running
    for row, upload in ((TRUNCATES, be_truncated), (IS_HOSTILE, be_hostile)):
        folder = workflow.root / "artifacts" / f"results-{row}"
        folder.mkdir()
        upload(folder)
        workflow.ended(row, "success")
    asked = workflow.ask()
    assert asked.returncode == 0, asked.stderr
    return workflow.report()


def be_truncated(folder: Path) -> None:
    """Upload the beginnings of tables."""
    green = Record(f"room/{target()}/leaves/double.forward/tokens2", "pass", "run", metrics={"elements": 8.0})
    write_results(folder, [replace(green, job={"job": TRUNCATES})])
    for path in folder.glob("*/*.parquet"):
        path.write_bytes(path.read_bytes()[:400])


def be_hostile(folder: Path) -> None:
    """Upload what a hostile machine could upload."""
    own = folder / f"{IS_HOSTILE}.xml"
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    own.write_text(f"<?xml version='1.0'?>{bomb}<testsuites>&b;</testsuites>")
    (folder / "link.xml").symlink_to("/etc/passwd")
    (folder / "::error title=<img src=x>::.xml").write_text("<testsuites/>")
    foreign = Record(f"room/{target()}/raises/double.forward/tokens2", "pass", "run", metrics={"elements": 8.0})
    junit.write(
        folder / f"room.raises.{target()}.xml",
        "x",
        [foreign, foreign],
        {"device": "</script><script>alert(1)</script>"},
    )
    junit.write(folder / "here.invented.xml", "x", [foreign], {})
    green = Record(f"here/{target()}/wrong/double.forward/tokens2", "pass", "run", metrics={"elements": 8.0})
    junit.write(folder / "here.wrong.xml", "x", [green], {})
    write_results(folder, [replace(green, job={"job": "here.wrong", "started": "2026-11-22T00:00:00Z"})])
    invented = write_results(folder, [replace(foreign, job={"job": "here.invented"})])
    linked = write_results(folder, [replace(foreign, job={"job": IS_HOSTILE})]).path("cases")
    linked.unlink()
    linked.symlink_to("/etc/passwd")
    shutil.copy(invented.path("jobs"), invented.path("jobs").with_name("::error title=<img src=x>::.parquet"))


def cells(workflow: Workflow) -> dict[str, dict]:
    return {cell["id"]: cell for cell in json.loads(workflow.site("compat.json"))["cells"]}


def cell(workflow: Workflow, job: str) -> dict:
    platform, toolchain = job.removesuffix(f".{target()}").split(".", 1)
    return cells(workflow)[f"{platform}/{target()}/{toolchain}/double.forward"]


def test_rows_say_their_machine_and_long_jobs_are_cut(workflow, reported):
    own = {row["id"]: row["labels"] for row in workflow.rows["own"]}
    labels = ["self-hosted", "linux", "room", target()]
    assert own[f"room.good.{target()}.1of2"] == own[f"room.good.{target()}.2of2"] == labels
    assert {row["id"] for row in workflow.rows["hosted"]} == {"here.good", "here.wrong"}


def test_a_shard_runs_its_cases_and_both_together_run_all(workflow, reported):
    found = [
        record.case
        for number in (1, 2)
        for record in records_in(workflow.root / "artifacts" / f"results-room.good.{target()}.{number}of2")
    ]
    assert len(found) == len(set(found)) == 3
    assert cell(workflow, "room.good")["state"] == "pass"


def test_what_ran_elsewhere_is_judged_as_if_it_had_run_here(workflow, reported):
    assert cell(workflow, "here.good")["state"] == "pass"
    assert cell(workflow, "here.wrong")["state"] == "fail"
    assert cell(workflow, f"room.raises.{target()}")["stage"] == "launch"


def test_a_machine_that_dies_leaves_its_cells_missing_and_says_which(workflow, reported):
    lost = cell(workflow, DIES)
    assert lost["state"] == "missing"
    assert lost["reason"].startswith("the job ended as 'failure' on box-2 and left no result")


def test_a_machine_that_never_answers_leaves_its_cells_unavailable_since_a_day(workflow, reported):
    silent = cell(workflow, NEVER_ANSWERS)
    day = (datetime.now(UTC) - timedelta(days=12)).strftime("%Y-%m-%d")
    assert silent["state"] == "unavailable"
    assert f"no machine with the labels self-hosted, linux, room, {target()} took it" in silent["reason"]
    assert f"Last result of this lane: {day}" in silent["reason"]


def test_the_page_says_how_long_rows_waited_and_the_next_plan_knows_what_they_took(workflow, reported):
    waited = "[ubuntu-24.04] 1.5 minutes (the median of 2 rows; at most 1.5)"
    [note] = [note for note in json.loads(workflow.site("compat.json"))["notes"] if note.startswith("Waiting for a")]
    assert waited in note
    assert waited.split("] ")[1] in workflow.site("summary.md")
    times = {time["row"]: time for time in json.loads(workflow.site("machines.json"))}
    assert times["here.good"]["ran"] == 155 > times["here.good"]["cases"] > 0
    assert times[NEVER_ANSWERS]["queued"] is None
    site = str(workflow.root / "doubles" / "build" / "site")
    planned = workflow.kernel_matrix("ci", "plan", "--event", "main", "--rows", "--history", site)
    assert f"in the last report rows waited: {waited}" in planned.stdout
    assert "machine minutes for other work than cases (checkout, image, environments): " in planned.stdout


def test_a_lane_that_is_silent_for_too_long_has_a_grey_badge(workflow, reported):
    badge = json.loads(workflow.site(f"badges/room.{target()}.flaky.json"))
    assert (badge["message"], badge["color"]) == ("no result for 12 days", "#6e7781")
    assert json.loads(workflow.site(f"badges/here.{target()}.good.json"))["color"] == "#1a7f37"
    assert "1 lane silent" in json.loads(workflow.site("badge.json"))["message"]
    silent = Page(workflow.root / "doubles" / "build" / "site").overview["silent"]
    assert f"room/{target()}/flaky" in [lane["lane"] for lane in silent if lane["gone"]]


def test_a_truncated_artifact_is_named_and_its_cells_are_missing(workflow, reported):
    assert ".parquet: refused: jobs/" in reported.stderr
    assert "is no whole Parquet file" in reported.stderr
    assert cell(workflow, TRUNCATES)["state"] == "missing"
    assert "its result was refused: jobs/" in cell(workflow, TRUNCATES)["reason"]


def test_a_hostile_artifact_is_refused_with_sentences_and_changes_nothing_else(workflow, reported):
    assert "its result was refused: this is a symbolic link" in cell(workflow, IS_HOSTILE)["reason"]
    assert cell(workflow, IS_HOSTILE)["state"] == "missing"
    for sentence in (
        f"{IS_HOSTILE}.xml: refused: it declares a document type or entities",
        "link.xml: refused: this is a symbolic link",
        ".xml: refused: a result's name has only letters, digits and . _ + -.",
        "here.invented.xml: refused: the plan has no job of this name",
        f"room.raises.{target()}.xml: refused: it came from another row than room.raises.{target()}",
        "here.wrong.xml: refused: it came from another row than here.wrong",
        ".parquet: refused: it came from another row than here.wrong",
        ".parquet: refused: the plan has no job of this name",
        ".parquet: refused: this is a symbolic link",
        ".parquet: refused: a table's name is JOB-IDENTITY.parquet",
    ):
        assert sentence in reported.stderr, reported.stderr
    for name in ("index.html", "data/overview.js"):
        assert "<script>alert(1)" not in workflow.site(name)
        assert "<img" not in workflow.site(name)
    assert not [line for line in reported.stderr.splitlines() if line.lstrip().startswith("::")]


def test_what_no_machine_has_is_unavailable_without_a_row(workflow, reported):
    nowhere = cells(workflow)["room/elsewhere/good/double.forward"]
    assert nowhere["state"] == "unavailable"
    assert nowhere["reason"].startswith("no machine of this run has this hardware")


def test_states_add_up_to_the_plan_and_the_exit_code_says_that_input_was_bad(workflow, reported):
    assert reported.returncode == 2
    run = json.loads(workflow.site("compat.json"))["run"]
    planned = json.loads((workflow.root / "plan.json").read_text())
    asked = sum(len(job["cases"]) for row in planned["rows"] for job in row["jobs"])
    assert sum(run["cases_by_state"].values()) == run["cases"] == asked


def test_a_failing_line_is_annotated_where_it_stands(workflow, reported):
    notes = [line for line in reported.stdout.splitlines() if line.startswith("::error")]
    assert any(re.match(r"::error file=src/doubles/__init__\.py,line=\d+,title=raises on ", line) for line in notes)
    assert len(notes) <= 10


def test_without_the_refused_files_the_exit_code_says_that_cells_are_red(workflow, reported):
    """This runs after all tests that look at the whole report, because it removes the refused artifacts."""
    for row in (TRUNCATES, IS_HOSTILE):
        shutil.rmtree(workflow.root / "artifacts" / f"results-{row}")
    site = str(workflow.root / "doubles" / "build" / "site")
    other = workflow.root / "compared"
    assert workflow.report("--against", site, "--build", str(other)).returncode == 1
    assert "1.5 minutes (the median" in (other / "site" / "summary.md").read_text(), "of a pull request, too"
    states = {cell["id"]: cell["state"] for cell in json.loads((other / "site" / "compat.json").read_text())["cells"]}
    assert states[f"room/{target()}/writes-nothing/double.forward"] == "missing"


def test_a_fork_s_plan_has_no_row_on_own_machines(workflow, reported):
    workflow.plan("--hosted-only")
    assert workflow.rows["own"] == []
    assert {row["labels"][0] for row in workflow.rows["hosted"]} == {"ubuntu-24.04"}
